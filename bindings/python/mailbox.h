#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>

#include "argosy/comm/backend/backend.h"
#include "bindings/python/engine.h"
#include "bindings/python/torch_work.h"

namespace argosy::python {

// Sends a tensor under a tag: a header that says what comes, then its data.
void send_tagged(
    const at::Tensor& tensor,
    int peer,
    int tag,
    comm::Backend& backend,
    Deadline deadline);

// The messages that this rank receives. A backend delivers those of one sender
// in the order in which they were sent; c10d wants them by tag, and from
// anybody. So messages are taken as they come, while some are awaited: each
// goes to the first receive that it fits, or is kept for a later one.
class Mailbox final : public Engine {
 public:
  static constexpr int kAnySource = -1;

  explicit Mailbox(std::shared_ptr<comm::Backend> backend);
  ~Mailbox() override { stop(); }

  struct Receive {
    at::Tensor tensor;
    int source = kAnySource;
    int tag = 0;
    Deadline deadline;
    TorchWorkPtr work;
  };
  void issue(Receive receive);

 private:
  struct Message {
    int source = 0;
    int tag = 0;
    at::Tensor data; // of one dimension
  };

  bool has_step() const override { return !posted_.empty(); }
  void step(Lock& lock) override;

  void take_message(Lock& lock);
  bool deliver_kept(const Receive& receive);
  void fail_all(Lock& lock, const std::exception_ptr& error);

  const std::shared_ptr<comm::Backend> backend_;
  // Guarded by the lock.
  std::deque<Receive> posted_;
  std::deque<Message> kept_;
  std::exception_ptr error_; // after it nothing can be received any more
};

} // namespace argosy::python
