#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/FunctionRef.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "argosy/pipeline/cut/modes.h"
#include "argosy/pipeline/cut/program.h"

namespace argosy::dtensor {
struct OpInfo;
}

// Not installed.
namespace argosy::pipeline {

// Numbers tensors as they come by, without keeping their memory, and writes
// down the ops between them. One run of one thread.
class Recorder {
 public:
  Recorder();
  ~Recorder(); // sets back what was written to
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add_state(const std::string& name, const at::Tensor& tensor);
  void add_input(const at::Tensor& tensor);
  void on_op(
      const c10::OperatorHandle& op,
      torch::jit::Stack& stack,
      c10::function_ref<void()> run);
  Program finish(const Tensors& outputs);

 private:
  using Info = dtensor::OpInfo;
  using WeakTensor =
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  int add_value(Value::Kind kind, const at::Tensor& tensor);
  const TensorMeta& meta(int number) const {
    return program_.metas[static_cast<std::size_t>(number)];
  }
  int memory_of(const at::Tensor& tensor);
  int number_of(const at::Tensor& tensor, const std::string& op);
  int add_alias(const at::Tensor& tensor, const std::string& op);
  int add_constant(const at::Tensor& tensor, const std::string& op);
  void check_history(int number, const at::Tensor& tensor) const;
  void check_answer(
      const c10::OperatorHandle& op,
      const Info& info,
      const Node& node,
      const c10::IValue* arguments) const;

  Argument argument_of(
      const c10::IValue& value, bool is_list, const std::string& op);
  void add_arguments(
      const Info& info, const c10::IValue* first, Call& call, Node& node);
  void add_results(
      const Info& info, const c10::IValue* first, Call& call, Node& node);
  void add_result(const c10::IValue& value, Call& call, Node& node);
  void keep_contents(int number, const at::Tensor& tensor);
  void note_memories(const Info& info, const Call& call, const Node& node);
  at::Tensor contents_of(int number) const;
  void bake_contents(int memory);
  std::shared_ptr<const Modes> modes() const;
  double run_within(c10::function_ref<void()> run); // seconds

  Program program_;
  const training::Autocast autocast_; // of the forward, as all of it
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
  bool is_random_within_ = false;
};

} // namespace argosy::pipeline
