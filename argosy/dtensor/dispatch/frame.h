#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>

#include "argosy/dtensor/dispatch/ruled_op.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/tensor.h"

namespace argosy::dtensor {

// The arguments of one call: its tensors, the mesh that they share, and the key
// under which the decision about it is kept.
class Frame {
 public:
  struct Input {
    const at::Tensor* tensor;
    Parts* parts;    // null: a plain tensor, taken as replicated
    std::size_t arg; // its argument
  };

  // Throws InvalidArgument where the tensors do not go together.
  Frame(const RuledOp& info, const c10::IValue* arguments);

  const RuledOp& info() const { return info_; }
  const c10::IValue* arguments() const { return arguments_; }
  const c10::SmallVectorImpl<Input>& inputs() const { return inputs_; }
  MeshState& mesh() const { return **mesh_; }
  const std::shared_ptr<MeshState>& shared_mesh() const { return *mesh_; }
  const CallKey& key() const { return key_; }

  // Of an input; plain tensors are replicated.
  Placements placements(const Input& input) const;

 private:
  void add_argument(std::size_t index);
  void add_tensor(const at::Tensor& tensor, std::size_t index);
  void add_tensor_key(const Input& input);
  void add_key(const c10::IValue& value);
  void check_written(const Input& input) const;
  void meet(Parts* parts);

  const RuledOp& info_;
  const c10::IValue* const arguments_;
  const std::shared_ptr<MeshState>* mesh_ = nullptr;
  c10::SmallVector<Input, 8> inputs_;
  CallKey key_;
};

} // namespace argosy::dtensor
