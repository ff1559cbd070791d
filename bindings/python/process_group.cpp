#include "bindings/python/process_group.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "argosy/comm/connect.h"
#include "argosy/common/error.h"
#include "bindings/python/gil_release.h"
#include "bindings/python/monitored_barrier.h"
#include "bindings/python/sparse.h"

namespace argosy::python {

namespace {

using c10d::OpType;
using WorkPtr = ProcessGroupArgosy::WorkPtr;
using std::chrono::milliseconds;

// The time limit for pending operations when a group is destroyed.
constexpr std::chrono::seconds kGrace(5);

std::unique_ptr<comm::Backend> connect(const ProcessGroupArgosy::Setup& setup) {
  std::vector<int> ranks = setup.global_ranks;
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(setup.size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  return comm::connect_auto(
      {.group = setup.name,
       .rank = setup.rank,
       .global_ranks = std::move(ranks),
       .store = setup.store,
       .deadline = Deadline::after(setup.timeout)});
}

// Fuses adjacent operations where possible. Keeps the order. All ranks issue
// the same operations, so all fuse alike.
void execute_all(
    const std::vector<comm::Op>& ops,
    int rank,
    comm::Backend& backend,
    Deadline deadline) {
  std::vector<comm::Op> together;
  for (const comm::Op& op : ops) {
    if (!together.empty() && !can_fuse(together.front(), op)) {
      comm::execute(std::exchange(together, {}), rank, backend, deadline);
    }
    together.push_back(op);
  }
  if (!together.empty()) {
    comm::execute(together, rank, backend, deadline);
  }
}

Tensors flat(const TensorLists& lists) {
  Tensors all;
  for (const Tensors& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

} // namespace

ProcessGroupArgosy::ProcessGroupArgosy(Setup setup)
    : c10d::ProcessGroup(setup.rank, setup.size),
      setup_(std::move(setup)),
      backend_(connect(setup_)),
      mailbox_(std::make_shared<Mailbox>(backend_)) {
  init();
}

// Lets pending operations end for a while. If some do not, a peer is gone or
// never came; aborting the backend makes them fail, so that stop(), which runs
// all remaining steps, does not block.
ProcessGroupArgosy::~ProcessGroupArgosy() {
  // Callbacks of pending operations may need the GIL.
  const GilRelease unlocked;
  std::vector<std::shared_ptr<Engine>> engines = {collectives_, mailbox_};
  for (const auto& [peer, queue] : senders_) {
    engines.push_back(queue);
  }
  const Deadline deadline = Deadline::after(kGrace);
  bool drained = true;
  for (const auto& engine : engines) {
    drained = engine->drain(deadline) && drained;
  }
  if (!drained) {
    backend_->abort(str_format(
        "rank {} let go of the group while operations were under way",
        setup_.rank));
  }
  for (const auto& engine : engines) {
    engine->stop();
  }
}

TorchWork::About ProcessGroupArgosy::about(
    OpType type, const char* title, Tensors inputs, TensorLists outputs) const {
  return {
      .rank = setup_.rank,
      .type = type,
      .title = title,
      .inputs = std::move(inputs),
      .outputs = std::move(outputs)};
}

// c10d passes kUnsetTimeout if the caller gives no time limit.
milliseconds ProcessGroupArgosy::limit(milliseconds given) const {
  return given == c10d::kUnsetTimeout ? setup_.timeout : given;
}

WorkPtr ProcessGroupArgosy::issue(
    Operation operation, TorchWork::About about, milliseconds timeout) {
  auto run = [backend = backend_,
              limit = limit(timeout),
              operation = std::move(operation)] {
    // The time starts when the operation runs, not while it waits behind
    // others.
    operation(*backend, Deadline::after(limit));
  };
  auto work = c10::make_intrusive<TorchWork>(
      std::move(about), collectives_, std::move(run));
  {
    const std::lock_guard lock(mutex_);
    ++num_collectives_;
  }
  collectives_->issue(work);
  return work;
}

WorkPtr ProcessGroupArgosy::issue(
    std::vector<comm::Op> ops, TorchWork::About about, milliseconds timeout) {
  auto run = [rank = setup_.rank, ops = std::move(ops)](
                 comm::Backend& backend, Deadline deadline) {
    execute_all(ops, rank, backend, deadline);
  };
  return issue(std::move(run), std::move(about), timeout);
}

WorkPtr ProcessGroupArgosy::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_root(options.rootRank, setup_.size, "broadcast");
  return issue(
      {broadcast_op(
          only(tensors, "broadcast"), static_cast<int>(options.rootRank))},
      about(OpType::BROADCAST, "argosy:broadcast", tensors, {tensors}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  if (tensor.defined() && tensor.layout() != c10::kStrided) {
    check_sparse(tensor);
    ARGOSY_CHECK(
        options.reduceOp.op_ == c10d::ReduceOp::SUM,
        "[comm.all_reduce] sparse tensors can only be summed");
    return issue(
        [tensor, rank = setup_.rank, size = setup_.size](
            comm::Backend& backend, Deadline deadline) {
          sparse_all_reduce(tensor, rank, size, backend, deadline);
        },
        about(
            OpType::ALLREDUCE, "argosy:sparse_all_reduce", tensors, {tensors}),
        options.timeout);
  }
  return issue(
      {all_reduce_op(tensor, options.reduceOp)},
      about(OpType::ALLREDUCE, "argosy:all_reduce", tensors, {tensors}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  std::vector<comm::Op> ops;
  for (const at::Tensor& tensor : tensors) {
    ops.push_back(all_reduce_op(tensor, options.reduceOp));
  }
  return issue(
      std::move(ops),
      about(
          OpType::ALLREDUCE_COALESCED, "argosy:all_reduce", tensors, {tensors}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::reduce(
    Tensors& tensors, const c10d::ReduceOptions& options) {
  check_root(options.rootRank, setup_.size, "reduce");
  return issue(
      {reduce_op(
          only(tensors, "reduce"),
          options.reduceOp,
          static_cast<int>(options.rootRank))},
      about(OpType::REDUCE, "argosy:reduce", tensors, {tensors}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::allgather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  return issue(
      {all_gather_op(
          only(outputs, "all_gather"),
          only(inputs, "all_gather"),
          setup_.size)},
      about(OpType::ALLGATHER, "argosy:all_gather", inputs, outputs),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::_allgather_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  return issue(
      {all_gather_op(output, input, setup_.size)},
      about(
          OpType::_ALLGATHER_BASE,
          "argosy:_all_gather_base",
          {input},
          {{output}}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::allgather_coalesced(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  std::vector<comm::Op> ops;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // outputs[rank][i] belongs to inputs[i], so operation i takes a column.
    Tensors of_ranks;
    for (const Tensors& list : outputs) {
      ARGOSY_CHECK(
          list.size() == inputs.size(),
          "[comm.all_gather] a list of {} tensors for {} of each rank",
          list.size(),
          inputs.size());
      of_ranks.push_back(list[i]);
    }
    ops.push_back(all_gather_op(of_ranks, inputs[i], setup_.size));
  }
  return issue(
      std::move(ops),
      about(OpType::ALLGATHER_COALESCED, "argosy:all_gather", inputs, outputs),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::gather(
    TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  check_root(options.rootRank, setup_.size, "gather");
  const bool is_root = options.rootRank == setup_.rank;
  ARGOSY_CHECK(
      is_root || outputs.empty(),
      "[comm.gather] rank {} passes a list, which only root {} may do",
      setup_.rank,
      options.rootRank);
  return issue(
      {gather_op(
          is_root ? &only(outputs, "gather") : nullptr,
          only(inputs, "gather"),
          static_cast<int>(options.rootRank),
          setup_.size)},
      about(OpType::GATHER, "argosy:gather", inputs, outputs),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ScatterOptions& options) {
  check_root(options.rootRank, setup_.size, "scatter");
  const bool is_root = options.rootRank == setup_.rank;
  ARGOSY_CHECK(
      is_root || inputs.empty(),
      "[comm.scatter] rank {} passes a list, which only root {} may do",
      setup_.rank,
      options.rootRank);
  return issue(
      {scatter_op(
          only(outputs, "scatter"),
          is_root ? &only(inputs, "scatter") : nullptr,
          static_cast<int>(options.rootRank),
          setup_.size)},
      about(OpType::SCATTER, "argosy:scatter", flat(inputs), {outputs}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::reduce_scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ReduceScatterOptions& options) {
  return issue(
      {reduce_scatter_op(
          only(outputs, "reduce_scatter"),
          only(inputs, "reduce_scatter"),
          options.reduceOp,
          setup_.size)},
      about(
          OpType::REDUCE_SCATTER,
          "argosy:reduce_scatter",
          flat(inputs),
          {outputs}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::_reduce_scatter_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  return issue(
      {reduce_scatter_op(output, input, options.reduceOp, setup_.size)},
      about(
          OpType::_REDUCE_SCATTER_BASE,
          "argosy:_reduce_scatter_base",
          {input},
          {{output}}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::alltoall_base(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<std::int64_t>& output_rows,
    std::vector<std::int64_t>& input_rows,
    const c10d::AllToAllOptions& options) {
  return issue(
      {all_to_all_op(output, input, output_rows, input_rows, setup_.size)},
      about(OpType::ALLTOALL_BASE, "argosy:all_to_all", {input}, {{output}}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  return issue(
      {all_to_all_op(outputs, inputs, setup_.size)},
      about(OpType::ALLTOALL, "argosy:all_to_all", inputs, {outputs}),
      options.timeout);
}

WorkPtr ProcessGroupArgosy::barrier(const c10d::BarrierOptions& options) {
  return issue(
      {comm::Op{.kind = comm::OpKind::Barrier}},
      about(OpType::BARRIER, "argosy:barrier", {}, {}),
      options.timeout);
}

void ProcessGroupArgosy::check_peer(int peer, const char* op) const {
  check_root(peer, setup_.size, op);
  ARGOSY_CHECK(
      peer != setup_.rank, "[comm.{}] rank {} is this rank itself", op, peer);
}

// A queue for each peer keeps messages to it in order, while a send that blocks
// holds up no other peer.
std::shared_ptr<OperationQueue> ProcessGroupArgosy::queue_to(int peer) {
  const std::lock_guard lock(mutex_);
  auto& queue = senders_[peer];
  if (!queue) {
    queue = std::make_shared<OperationQueue>();
  }
  return queue;
}

WorkPtr ProcessGroupArgosy::send(Tensors& tensors, int peer, int tag) {
  const at::Tensor& tensor = only(tensors, "send");
  check_tensor(tensor, "send");
  check_peer(peer, "send");
  const auto queue = queue_to(peer);
  auto run = [tensor, peer, tag, backend = backend_, limit = setup_.timeout] {
    send_tagged(tensor, peer, tag, *backend, Deadline::after(limit));
  };
  auto work = c10::make_intrusive<TorchWork>(
      about(OpType::SEND, "argosy:send", tensors, {}), queue, std::move(run));
  queue->issue(work);
  return work;
}

WorkPtr ProcessGroupArgosy::recv(Tensors& tensors, int peer, int tag) {
  check_peer(peer, "recv");
  return receive(only(tensors, "recv"), peer, tag, OpType::RECV, "argosy:recv");
}

WorkPtr ProcessGroupArgosy::recvAnysource(Tensors& tensors, int tag) {
  return receive(
      only(tensors, "recv"),
      Mailbox::kAnySource,
      tag,
      OpType::RECVANYSOURCE,
      "argosy:recvAnySource");
}

WorkPtr ProcessGroupArgosy::receive(
    const at::Tensor& tensor,
    int source,
    int tag,
    OpType type,
    const char* title) {
  check_tensor(tensor, "recv");
  auto work = c10::make_intrusive<TorchWork>(
      about(type, title, {tensor}, {{tensor}}), mailbox_, nullptr);
  mailbox_->issue(
      {.tensor = tensor,
       .source = source,
       .tag = tag,
       .deadline = Deadline::after(setup_.timeout),
       .work = work});
  return work;
}

void ProcessGroupArgosy::monitoredBarrier(
    const c10d::BarrierOptions& options, bool wait_all_ranks) {
  int number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = num_monitored_barriers_++;
  }
  monitored_barrier(
      *setup_.store,
      setup_.rank,
      setup_.size,
      number,
      limit(options.timeout),
      wait_all_ranks);
}

std::uint64_t ProcessGroupArgosy::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return num_collectives_;
}

} // namespace argosy::python
