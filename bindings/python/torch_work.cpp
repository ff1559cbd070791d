#include "bindings/python/torch_work.h"

#include <utility>

#include "argosy/common/error.h"
#include "bindings/python/engine.h"

namespace argosy::python {

namespace {

using Lists = std::vector<std::vector<at::Tensor>>;

// The type of the future's value: a list of tensors, as for c10d's own groups,
// or a list of lists if an operation has several.
c10::TypePtr type_of(const Lists& outputs) {
  c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return outputs.size() > 1 ? c10::ListType::create(list) : list;
}

c10::IValue value_of(const Lists& outputs) {
  if (outputs.size() > 1) {
    return outputs;
  }
  return outputs.empty() ? std::vector<at::Tensor>{} : outputs.front();
}

// Python programs, and PyTorch's own tests, expect c10d's wording.
std::exception_ptr as_c10d_says(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const TimeoutError& timeout) {
    return std::make_exception_ptr(
        TimeoutError(str(timeout.what(), "; Timed out waiting for it")));
  } catch (...) {
    return error;
  }
}

} // namespace

TorchWork::TorchWork(
    About about, std::weak_ptr<Engine> engine, std::function<void()> operation)
    : c10d::Work(about.rank, about.type, about.title, about.inputs),
      outputs_(std::move(about.outputs)),
      engine_(std::move(engine)),
      future_(c10::make_intrusive<c10::ivalue::Future>(type_of(outputs_))),
      operation_(std::move(operation)) {}

void TorchWork::execute() {
  std::exception_ptr caught;
  try {
    const at::NoGradGuard no_grad; // parameters are written in place
    operation_();
  } catch (...) {
    caught = std::current_exception();
  }
  operation_ = nullptr; // releases the tensors that it holds
  end(caught);
}

void TorchWork::end(const std::exception_ptr& error) {
  if (error) {
    const std::exception_ptr said = as_c10d_says(error);
    future_->setErrorIfNeeded(said);
    finish(said);
    return;
  }
  future_->markCompleted(value_of(outputs_));
  finish();
}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  // A caller with a time limit must be able to return before the operation
  // ends.
  if (timeout == kNoTimeout) {
    // A work may outlive its group.
    if (const auto engine = engine_.lock()) {
      engine->help(*this);
    }
  }
  return c10d::Work::wait(timeout);
}

std::vector<at::Tensor> TorchWork::result() {
  ARGOSY_CHECK(isCompleted(), "[comm.result] the operation has not ended");
  ARGOSY_CHECK(
      outputs_.size() <= 1,
      "[comm.result] {} lists of outputs; get_future() has them",
      outputs_.size());
  return outputs_.empty() ? std::vector<at::Tensor>{} : outputs_.front();
}

} // namespace argosy::python
