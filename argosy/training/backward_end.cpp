#include "argosy/training/backward_end.h"

#include <torch/csrc/autograd/engine.h>

#include <memory>
#include <utility>

namespace argosy::training {

namespace {

// The engine holds it in a callback. If backward throws, the engine destroys
// its callbacks without calling them, which is the only sign of it.
class BackwardEnd {
 public:
  BackwardEnd(std::function<void()> on_end, std::function<void()> on_failure)
      : on_end_(std::move(on_end)), on_failure_(std::move(on_failure)) {}
  ~BackwardEnd() {
    if (!has_ended_) {
      on_failure_();
    }
  }
  BackwardEnd(const BackwardEnd&) = delete;
  BackwardEnd& operator=(const BackwardEnd&) = delete;

  void end() {
    on_end_();
    has_ended_ = true;
  }

 private:
  const std::function<void()> on_end_;
  const std::function<void()> on_failure_;
  bool has_ended_ = false;
};

} // namespace

void at_end_of_backward(
    std::function<void()> on_end, std::function<void()> on_failure) {
  torch::autograd::Engine::get_default_engine().queue_callback(
      [end = std::make_shared<BackwardEnd>(
           std::move(on_end), std::move(on_failure))] { end->end(); });
}

} // namespace argosy::training
