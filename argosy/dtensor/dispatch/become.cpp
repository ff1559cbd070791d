#include "argosy/dtensor/dispatch/become.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/graph_task.h>

#include <set>
#include <string>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/op_info.h"
#include "argosy/dtensor/tensor.h"

namespace argosy::dtensor {

namespace {

void become(const at::Tensor& tensor, const at::Tensor& other) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
}

bool is_in_backward() {
  return torch::autograd::get_current_graph_task_nodes_in_graph() != nullptr;
}

bool is_new(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
      !value.toTensor().requires_grad() && value.toTensor().has_storage() &&
      parts_of(value.toTensor()) == nullptr &&
      value.toTensor().storage().use_count() == 1;
}

std::shared_ptr<MeshState> mesh_among(const torch::jit::Stack& arguments) {
  for (const c10::IValue& value : arguments) {
    const Parts* parts =
        value.isTensor() ? parts_of(value.toTensor()) : nullptr;
    if (parts != nullptr) {
      return parts->mesh;
    }
  }
  return nullptr;
}

void adopt(const at::Tensor& tensor, const std::shared_ptr<MeshState>& mesh) {
  const auto axes = static_cast<std::size_t>(mesh->mesh().ndim());
  become(
      tensor,
      make_dtensor(
          {.local = tensor.detach(),
           .mesh = mesh,
           .placements = Placements(axes, Replicate())},
          tensor.sizes()));
}

} // namespace

void adopt_new_tensors(const OpInfo& info, const torch::jit::Stack& arguments) {
  if (!is_in_backward()) {
    return;
  }
  const auto mesh = mesh_among(arguments);
  for (std::size_t i = 0; i < info.args.size() && mesh; ++i) {
    if (info.args[i].is_written && is_new(arguments[i])) {
      adopt(arguments[i].toTensor(), mesh);
    }
  }
}

void change_shape(
    const c10::OperatorHandle& op,
    const OpInfo& info,
    torch::jit::Stack& stack) {
  static const std::set<std::string> with_view{
      "aten::squeeze_", "aten::t_", "aten::transpose_", "aten::unsqueeze_"};
  std::string name = op.operator_name().name;
  ARGOSY_CHECK(
      with_view.contains(name),
      "[dtensor.",
      info.name,
      "] changes the shape of a DTensor in place, which is not possible; use "
      "the op that returns a new tensor");
  name.pop_back();
  const at::Tensor self = stack[stack.size() - info.args.size()].toTensor();
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(name.c_str(), op.operator_name().overload_name.c_str())
      .callBoxed(stack);
  become(self, stack.back().toTensor());
  stack.back() = self;
}

} // namespace argosy::dtensor
