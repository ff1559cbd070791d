#include "argosy/pipeline/transport.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/observe/span.h"

namespace argosy::pipeline {

namespace {

at::Tensor numbers_of(const std::vector<std::int64_t>& numbers) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(numbers.size())}, at::kLong);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<std::int64_t>());
  return tensor;
}

std::vector<std::int64_t> receive_numbers(
    std::int64_t count, int rank, const GroupPtr& group) {
  const at::Tensor tensor = at::empty({count}, at::kLong);
  recv(tensor, rank, group);
  const auto* numbers = tensor.data_ptr<std::int64_t>();
  return {numbers, numbers + count};
}

} // namespace

void Transport::begin(const Schedule& schedule, BatchShapes shapes) {
  reset();
  schedule_ = &schedule;
  shapes_ = shapes;
  own_metas_.clear();
  static const OpLabel label("pipeline, shapes of the batch");
  const LabelScope scope(label);
  const int own = group_->rank();
  if (own == 0) {
    for (int stage = 1; stage < schedule.stages; ++stage) {
      keep_until_sent(
          numbers_of({shapes.uniform ? 1 : 0, shapes.fingerprint}),
          rank_of(stage));
    }
  } else {
    const observe::Span span("wait for a batch", observe::Activity::Wait);
    const auto told = receive_numbers(2, rank_of(0), group_);
    shapes_ = {told[0] != 0, told[1]};
  }
  // Messages from one stage arrive in the order of its schedule, which both
  // sides know. So messages need no tags or headers.
  for (int stage = 0; stage < schedule.stages; ++stage) {
    auto order = messages_between(schedule, stage, own);
    if (stage != own && !order.empty()) {
      inboxes_[stage] = {.rank = rank_of(stage), .order = std::move(order)};
    }
  }
  for (auto& [stage, inbox] : inboxes_) {
    post_ahead(inbox);
  }
}

Transport::Inbox& Transport::inbox_of(const Message& message) {
  const int source = schedule_->stage_of(
      // Gradients come from the next part, activations from the previous one.
      message.is_gradient ? message.part + 1 : message.part - 1);
  return inboxes_.at(source);
}

OpLabel Transport::label_of(const Message& message) {
  OpLabel& label = labels_[message];
  if (label.empty()) {
    label = OpLabel(str_format(
        "pipeline, {} of microbatch {} for part {}",
        message.is_gradient ? "gradients" : "activations",
        message.microbatch,
        message.part));
  }
  return label;
}

// Returns the metas of a message if this rank knows them, else null.
const Metas* Transport::known(const Message& message) const {
  // A gradient has the metas of the activations that it belongs to.
  const int receiver = message.is_gradient ? message.part + 1 : message.part;
  if (!shapes_.uniform) {
    const auto found = own_metas_.find({false, receiver, message.microbatch});
    return found == own_metas_.end() ? nullptr : &found->second;
  }
  const auto all = metas_.find(shapes_.fingerprint);
  if (all == metas_.end()) {
    return nullptr;
  }
  const auto found = all->second.find(receiver);
  return found == all->second.end() ? nullptr : &found->second;
}

void Transport::keep_until_sent(const at::Tensor& tensor, int rank) {
  // isend() reads the memory later, so the tensor is kept beside its work.
  outgoing_.emplace_back(isend(tensor, rank, group_), tensor);
}

// Sends the shapes of activations, unless the receiver knows them.
void Transport::send_metas(
    const Message& message, const Metas& metas, int rank) {
  if (const Metas* before = known(message)) {
    ARGOSY_CHECK(
        *before == metas,
        "[pipeline] part {} returned {} where it returned {} for a microbatch "
        "of the same shapes before: when shapes depend on values, set "
        "dynamic_shapes; when the model has changed, call forget_shapes() on "
        "all stages",
        message.part - 1,
        to_string(metas),
        to_string(*before));
    return;
  }
  const std::vector<std::int64_t> numbers = pack(metas);
  keep_until_sent(
      numbers_of({static_cast<std::int64_t>(numbers.size())}), rank);
  keep_until_sent(numbers_of(numbers), rank);
  if (shapes_.uniform) {
    metas_[shapes_.fingerprint][message.part] = metas;
  } else {
    own_metas_[message] = metas;
  }
}

Metas Transport::receive_metas(Inbox& inbox) {
  const Message& message = inbox.order[inbox.next];
  const LabelScope scope(label_of(message));
  const std::int64_t count = receive_numbers(1, inbox.rank, group_).front();
  const Metas metas = trace::unpack(receive_numbers(count, inbox.rank, group_));
  if (shapes_.uniform) {
    metas_[shapes_.fingerprint][message.part] = metas;
  } else {
    own_metas_[message] = metas;
  }
  return metas;
}

void Transport::send(const Message& message, const Tensors& tensors) {
  const LabelScope scope(label_of(message));
  const int rank = rank_of(schedule_->stage_of(message.part));
  if (!message.is_gradient) {
    send_metas(message, metas_of(tensors), rank);
  }
  // Buffers must live until the send completes; those that have completed are
  // released here, without waiting.
  for (const at::Tensor& each : tensors) {
    keep_until_sent(each.detach().contiguous(), rank);
  }
  outgoing_.erase(
      std::remove_if(
          outgoing_.begin(),
          outgoing_.end(),
          [](const auto& each) {
            const bool is_sent = each.first->is_completed();
            if (is_sent) {
              each.first->wait(); // rethrows a failure of the send
            }
            return is_sent;
          }),
      outgoing_.end());
}

void Transport::post_receive(Inbox& inbox, const Metas& metas) {
  const Message& message = inbox.order[inbox.next];
  const LabelScope scope(label_of(message));
  const Metas expected = message.is_gradient ? gradients_of(metas) : metas;
  Incoming incoming{message, make_tensors(expected), expected, {}};
  for (const at::Tensor& each : incoming.tensors) {
    incoming.works.push_back(irecv(each, inbox.rank, group_));
  }
  inbox.incoming = std::move(incoming);
}

// At most one message of each sender is posted ahead: enough to overlap its
// transfer with a step, and a bound for the memory of waiting messages.
void Transport::post_ahead(Inbox& inbox) {
  if (inbox.incoming || inbox.next == inbox.order.size()) {
    return;
  }
  // Without known shapes, the receive is posted when the message is awaited.
  if (const Metas* metas = known(inbox.order[inbox.next])) {
    post_receive(inbox, *metas);
  }
}

// Waits for the next message in the sender's order, whichever step needs it: an
// ordered channel cannot deliver a later one first.
void Transport::await_next(Inbox& inbox) {
  ARGOSY_CHECK(
      inbox.next < inbox.order.size(),
      "[pipeline] a message that the schedule does not send");
  if (!inbox.incoming) {
    const Message& message = inbox.order[inbox.next];
    const Metas* metas = known(message);
    // This stage sent the activations of the gradient, so it knows their
    // shapes.
    if (metas == nullptr && message.is_gradient) {
      throw InternalError("[pipeline] a gradient before its activations");
    }
    post_receive(inbox, metas != nullptr ? *metas : receive_metas(inbox));
  }
  for (const WorkPtr& work : inbox.incoming->works) {
    work->wait();
  }
  Incoming& come = *inbox.incoming;
  for (std::size_t i = 0; i < come.tensors.size(); ++i) {
    come.tensors[i].requires_grad_(
        !come.message.is_gradient && come.metas[i].requires_grad);
  }
  inbox.arrived[come.message] = std::move(come.tensors);
  inbox.incoming.reset();
  ++inbox.next;
  post_ahead(inbox);
}

Tensors Transport::receive(const Message& message) {
  Inbox& inbox = inbox_of(message);
  const observe::Span span("wait for a stage", observe::Activity::Wait);
  // Messages of other steps may come first; they are kept until asked for.
  while (inbox.arrived.count(message) == 0) {
    await_next(inbox);
  }
  return std::move(inbox.arrived.extract(message).mapped());
}

void Transport::finish() {
  for (const auto& [work, tensor] : outgoing_) {
    work->wait();
  }
  reset();
}

void Transport::reset() {
  outgoing_.clear();
  inboxes_.clear();
  schedule_ = nullptr;
}

void Transport::broadcast(const at::Tensor& numbers, int source) {
  static const OpLabel label("pipeline, loss");
  const LabelScope scope(label);
  if (group_->rank() != source) {
    recv(numbers, rank_of(source), group_);
    return;
  }
  // Sends to all before it waits for one.
  std::vector<WorkPtr> works;
  for (const int rank : group_->ranks()) {
    if (rank != rank_of(source)) {
      works.push_back(isend(numbers, rank, group_));
    }
  }
  for (const WorkPtr& work : works) {
    work->wait();
  }
}

} // namespace argosy::pipeline
