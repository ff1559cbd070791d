#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>

#include "argosy/comm/backend/backend.h"
#include "bindings/python/engine.h"
#include "bindings/python/torch_work.h"

namespace argosy::python {

// Sends a tensor with a tag: a header, then the data.
void send_tagged(
    const at::Tensor& tensor,
    int peer,
    int tag,
    comm::Backend& backend,
    Deadline deadline);

// Receives messages by tag, and from any source, as c10d requires. A backend
// delivers messages of one sender in order only. So while receives are posted,
// messages are taken as they arrive; each goes to the first receive that
// matches, or is kept for a later one.
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
    at::Tensor data; // one-dimensional
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
  std::exception_ptr error_; // set once nothing can be received any more
};

} // namespace argosy::python
