#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace argosy::python {

class Engine;

// An operation as torch.distributed sees it: a c10d::Work with a future for the
// outputs and a profiler event.
class TorchWork final : public c10d::Work {
 public:
  struct About {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    // Name of the profiler event; outlives the work.
    const char* title = nullptr;
    std::vector<at::Tensor> inputs; // shapes for the profiler event
    std::vector<std::vector<at::Tensor>> outputs;
  };

  TorchWork(
      About about,
      std::weak_ptr<Engine> engine,
      std::function<void()> operation);

  // Called by the engine: runs the operation and stores its result.
  void execute();
  // Stores the result of an operation that is not a single function.
  void end(const std::exception_ptr& error);
  void set_source(int rank) { source_ = rank; }

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future_;
  }
  int sourceRank() const override { return source_; }

 private:
  const std::vector<std::vector<at::Tensor>> outputs_;
  const std::weak_ptr<Engine> engine_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::function<void()> operation_; // empty once it has run
  int source_ = -1;
};

using TorchWorkPtr = c10::intrusive_ptr<TorchWork>;

} // namespace argosy::python
