#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "argosy/recomputation/options.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/trace/program.h"

namespace argosy::torch_hooks {
class CaughtOp;
class SavedTensorScope;
struct OpInfo;
} // namespace argosy::torch_hooks

namespace argosy::recomputation {

class RecomputedCall;

// The ops of a segment, and what they wrote to.
struct Recording {
  // A buffer that an op writes to, such as the statistics of a batch norm, and
  // what was in it before.
  struct Written {
    at::Tensor state;
    at::Tensor contents;
  };

  trace::Program program;
  std::unordered_map<int, std::vector<Written>> written; // by node
  std::unordered_set<int> views;   // nodes that make views and nothing else
  std::unordered_set<int> skipped; // nodes that replays leave out
};

// A stretch of a forward, op by op. While it lives, ops of the thread do not
// save their tensors for backward. The tensors that come into it from outside
// are kept instead, and backward runs the ops again.
//
// A tensor that no op of the segment made comes from outside, whatever made it:
// an earlier segment, a torch::autograd::Function, or a collective.
class RecordedSegment {
 public:
  // `states` are tensors that exist anyway, parameters and buffers: they are
  // not kept, but used again as they are then.
  RecordedSegment(
      const RecomputeOptions& options,
      const std::unordered_set<const c10::TensorImpl*>& states);
  ~RecordedSegment();
  RecordedSegment(const RecordedSegment&) = delete;
  RecordedSegment& operator=(const RecordedSegment&) = delete;

  // Runs an op, the outermost one, and records it.
  void run(torch_hooks::CaughtOp& caught, c10::function_ref<void()> run);

  // False while a recompute() of the model itself is inside of the segment.
  bool is_innermost() const;

 private:
  using WeakTensor =
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  int add_value(const at::Tensor& tensor, trace::Value::Kind kind);
  int number_of(const at::Tensor& tensor);
  void keep_input(const at::Tensor& tensor);
  void copy_written(const at::Tensor& tensor);
  void drop_unused_views();
  void add_result(const c10::IValue& value, trace::Call& call);
  void add_results(
      const torch_hooks::OpInfo& info,
      const c10::IValue* first,
      trace::Call& call,
      trace::Node& node);

  const std::unordered_set<const c10::TensorImpl*>& states_;
  const std::shared_ptr<Recording> recording_; // shared with the replay
  trace::Program& program_;                    // its ops
  const std::shared_ptr<RecomputedCall> call_;
  const std::shared_ptr<void> first_run_;
  const torch_hooks::Autocast autocast_;
  const at::Generator* const generator_;
  std::unique_ptr<torch_hooks::SavedTensorScope> scope_;

  bool is_state(const at::Tensor& tensor) const {
    return states_.count(tensor.unsafeGetTensorImpl()) > 0;
  }

  std::unordered_map<const c10::TensorImpl*, int> numbers_;
  std::unordered_set<const c10::StorageImpl*> outer_memories_;
  // So that no other tensor gets the address of one that is gone.
  std::vector<WeakTensor> tensors_;
};

} // namespace argosy::recomputation
