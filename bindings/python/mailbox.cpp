#include "bindings/python/mailbox.h"

#include <algorithm>
#include <array>
#include <utility>

#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy::python {

namespace {

// Precedes the data of every message.
struct Header {
  std::int64_t tag = 0;
  std::int64_t scalar_type = 0; // c10::ScalarType
  std::int64_t count = 0;
};

constexpr std::size_t kHeaderCount = sizeof(Header) / sizeof(std::int64_t);

Header receive_header(int peer, comm::Backend& backend, Deadline deadline) {
  Header header;
  backend.receive(&header, kHeaderCount, comm::DType::Int64, peer, deadline);
  return header;
}

void receive_data(
    const at::Tensor& tensor,
    int peer,
    comm::Backend& backend,
    Deadline deadline) {
  const comm::Contiguous buffer(tensor);
  backend.receive(
      buffer.data(),
      buffer.count(),
      comm::dtype_of(tensor, "recv"),
      peer,
      deadline);
  buffer.put_back();
}

std::string text_of(const at::Tensor& tensor) {
  return str(c10::toString(tensor.scalar_type()), " of ", tensor.numel());
}

} // namespace

void send_tagged(
    const at::Tensor& tensor,
    int peer,
    int tag,
    comm::Backend& backend,
    Deadline deadline) {
  const comm::Contiguous buffer(tensor);
  const Header header{
      .tag = tag,
      .scalar_type = static_cast<std::int64_t>(tensor.scalar_type()),
      .count = tensor.numel()};
  backend.send(&header, kHeaderCount, comm::DType::Int64, peer, deadline);
  backend.send(
      buffer.data(),
      buffer.count(),
      comm::dtype_of(tensor, "send"),
      peer,
      deadline);
}

// Matches messages and receives by source and tag, in MPI's words: `posted_`
// are receives without a message yet, `kept_` are unexpected messages. The
// backend delivers the messages of a peer in order and knows no tags. So one
// step reads the next header; if a posted receive fits, the data goes straight
// into its tensor, otherwise it is kept, at the cost of a copy. Kept messages
// are older than those still to come, so a receive looks there first; this
// keeps messages with equal source and tag in order. After an error, data may
// be left unread in a stream, so all later receives fail with it.
Mailbox::Mailbox(std::shared_ptr<comm::Backend> backend)
    : backend_(std::move(backend)) {}

void Mailbox::issue(Receive receive) {
  Lock held = lock();
  if (error_) {
    const std::exception_ptr error = error_;
    held.unlock();
    receive.work->end(error);
    return;
  }
  posted_.push_back(std::move(receive));
  wake(held);
}

void Mailbox::step(Lock& held) {
  const at::NoGradGuard no_grad; // the tensors may be parameters
  try {
    const auto fits = [&](const Receive& each) { return deliver_kept(each); };
    const auto found = std::find_if(posted_.begin(), posted_.end(), fits);
    if (found == posted_.end()) {
      take_message(held);
      return;
    }
    // Ends the work without the lock: its callbacks may post a receive.
    const TorchWorkPtr work = found->work;
    posted_.erase(found);
    held.unlock();
    work->end(nullptr);
    held.lock();
  } catch (...) {
    fail_all(held, std::current_exception());
  }
}

bool Mailbox::deliver_kept(const Receive& receive) {
  const auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Message& message) {
        return message.tag == receive.tag &&
            (receive.source == kAnySource || receive.source == message.source);
      });
  if (found == kept_.end()) {
    return false;
  }
  const Message message = std::move(*found);
  kept_.erase(found);
  ARGOSY_CHECK(
      message.data.numel() == receive.tensor.numel() &&
          message.data.scalar_type() == receive.tensor.scalar_type(),
      "[comm.recv] rank {} sent {} elements, expected {}",
      message.source,
      text_of(message.data),
      text_of(receive.tensor));
  receive.tensor.copy_(message.data.view(receive.tensor.sizes()));
  receive.work->set_source(message.source);
  return true;
}

void Mailbox::take_message(Lock& held) {
  const auto sooner = [](const Receive& a, const Receive& b) {
    return a.deadline.time() < b.deadline.time();
  };
  // Any message may be for any receive, so the one that expires first limits
  // the wait.
  const Deadline deadline =
      std::min_element(posted_.begin(), posted_.end(), sooner)->deadline;
  held.unlock();
  const int peer = backend_->await_any_message(deadline);
  const Header header = receive_header(peer, *backend_, deadline);
  held.lock();
  const auto found =
      std::find_if(posted_.begin(), posted_.end(), [&](const Receive& each) {
        return each.tag == header.tag &&
            (each.source == kAnySource || each.source == peer);
      });
  if (found == posted_.end()) {
    held.unlock();
    at::Tensor data = at::empty(
        {header.count}, static_cast<c10::ScalarType>(header.scalar_type));
    receive_data(data, peer, *backend_, deadline);
    held.lock();
    kept_.push_back({peer, static_cast<int>(header.tag), std::move(data)});
    return;
  }
  // Taken out before the lock is released, so that no other step fills it.
  const Receive receive = *found;
  posted_.erase(found);
  held.unlock();
  std::exception_ptr caught;
  try {
    receive_data(receive.tensor, peer, *backend_, receive.deadline);
    receive.work->set_source(peer);
  } catch (...) {
    caught = std::current_exception();
  }
  receive.work->end(caught);
  held.lock();
  if (caught) {
    std::rethrow_exception(caught);
  }
}

void Mailbox::fail_all(Lock& held, const std::exception_ptr& error) {
  if (!held.owns_lock()) {
    held.lock();
  }
  error_ = error;
  const auto failed = std::exchange(posted_, {});
  held.unlock();
  for (const Receive& each : failed) {
    each.work->end(error);
  }
  held.lock();
}

} // namespace argosy::python
