#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "argosy/trace/modes.h"
#include "argosy/trace/program.h"

namespace argosy::torch_hooks {
class CaughtOp;
struct OpInfo;
} // namespace argosy::torch_hooks

namespace argosy::trace {

// What a recorder asks about tensors that stand for others, such as DTensors.
struct Wrappers {
  // The plain tensor in whose memory the values are: of a plain one, itself.
  std::function<at::Tensor(const at::Tensor&)> memory;
  // Called for each new value.
  std::function<void(int value, const at::Tensor&)> on_value;
};

// Records what a thread does, op by op, above autograd and autocast. Numbers
// tensors as they come by, without keeping their memory. For one recording.
//
// Throws InvalidArgument where a run of the program would not do what the
// recorded one did: an op asks for a value (item()) or makes a shape that
// depends on values (nonzero()), or a tensor comes from a
// torch::autograd::Function, or requires a gradient and is no state.
class Recorder {
 public:
  explicit Recorder(Wrappers wrappers = {});
  ~Recorder(); // sets back the states, inputs and constants that ops wrote to
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add_state(const std::string& name, const at::Tensor& tensor);
  void add_input(const at::Tensor& tensor);

  // While it lives, ops of the calling thread are recorded. Scopes do not nest.
  // Throws InvalidArgument when the hook `intercept` is switched off.
  class Scope {
   public:
    explicit Scope(Recorder& recorder);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const bool was_caught_;
  };

  // Runs an op of the thread and records it, unless it is a part of another.
  void on_op(torch_hooks::CaughtOp& caught, c10::function_ref<void()> run);
  // Whether the thread is within an op that is recorded as a whole.
  bool is_within_op() const { return is_within_op_; }

  // Call it once, after the scope.
  Program finish(const std::vector<at::Tensor>& outputs);

 private:
  using Info = torch_hooks::OpInfo;
  using WeakTensor =
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  int add_value(Value::Kind kind, const at::Tensor& tensor);
  const TensorMeta& meta(int number) const {
    return program_.metas[at(number)];
  }
  at::Tensor memory_holder(const at::Tensor& tensor) const;
  int memory_of(const at::Tensor& given);
  int number_of(const at::Tensor& tensor, const std::string& op);
  int add_alias(const at::Tensor& tensor, const std::string& op);
  int add_constant(const at::Tensor& tensor, const std::string& op);
  void check_history(int number, const at::Tensor& tensor) const;
  void check_answer(
      const c10::OperatorHandle& op,
      const Info& info,
      const Node& node,
      const c10::IValue* arguments) const;

  void keep_written(
      const Info& info, const c10::IValue* first, const Call& call);
  void add_results(
      const Info& info, const c10::IValue* first, Call& call, Node& node);
  void add_result(const c10::IValue& value, Call& call, Node& node);
  void keep_contents(int number, const at::Tensor& tensor);
  void note_memories(const Info& info, const Call& call, const Node& node);
  at::Tensor contents_of(int number) const;
  void bake_contents(int memory);
  double run_within(c10::function_ref<void()> run); // seconds

  const Wrappers wrappers_;
  Program program_;
  const torch_hooks::Autocast autocast_; // of the forward, as all of it
  const at::Generator* const generator_;
  std::unordered_map<const c10::TensorImpl*, int> numbers_;
  std::unordered_map<const c10::StorageImpl*, int> memories_;
  int num_memories_ = 0;
  // So that no other tensor gets the address of one that is gone.
  std::vector<WeakTensor> tensors_; // by value
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<std::int64_t> offsets_; // by value: in its storage
  // Of memories that at::empty() made and no op has written to: its node.
  std::unordered_map<int, int> unwritten_;
  std::unordered_map<int, int> last_writes_;            // by memory: node
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_; // tensor, its contents
  bool is_within_op_ = false;
  // Of the op that the thread is within: what the ops that it calls do.
  bool is_random_within_ = false;
  double products_within_ = 0; // multiply-adds
};

// Runs an op that another hook has caught before the recorder could. In a
// recording, all that `run` does becomes that one op.
void record_op(torch_hooks::CaughtOp& caught, c10::function_ref<void()> run);

} // namespace argosy::trace
