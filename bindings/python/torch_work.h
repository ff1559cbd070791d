#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace argosy::python {

class Engine;

// An operation as torch.distributed sees it: something to wait for, a future
// with the outputs, and an event of the profiler.
class TorchWork final : public c10d::Work {
 public:
  struct About {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr; // of the profiler's event; outlives the work
    std::vector<at::Tensor> inputs; // whose shapes the event shows
    std::vector<std::vector<at::Tensor>> outputs;
  };

  TorchWork(
      About about,
      std::weak_ptr<Engine> engine,
      std::function<void()> operation);

  // For the engine: carries the operation out and keeps its outcome.
  void execute();
  // For operations that are not one function: keeps their outcome.
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
  std::function<void()> operation_; // empty once it was carried out
  int source_ = -1;
};

using TorchWorkPtr = c10::intrusive_ptr<TorchWork>;

} // namespace argosy::python
