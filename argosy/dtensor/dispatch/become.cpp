#include "argosy/dtensor/dispatch/become.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <string>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/op_info.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

bool is_new(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() &&
      !value.toTensor().requires_grad() &&
      parts_of(value.toTensor()) == nullptr && value.toTensor().has_storage() &&
      value.toTensor().storage().use_count() == 1;
}

std::shared_ptr<MeshState> mesh_among(c10::ArrayRef<c10::IValue> arguments) {
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
  torch_hooks::become(
      tensor,
      make_dtensor(
          {.local = tensor.detach(),
           .mesh = mesh,
           .placements = Placements(axes, Replicate())},
          tensor.sizes()));
}

// Each rank takes its part of a value that all ranks have.
void take_value(const OpInfo& info, torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - info.args.size();
  const at::Tensor self = stack[first].toTensor();
  const at::Tensor value = stack[first + 1].toTensor();
  ARGOSY_CHECK(
      value.sizes() == self.sizes(),
      "[dtensor.set_] a value of shape {}, which torch::load or set_() gives a "
      "DTensor, expected {}",
      value.sizes(),
      self.sizes());
  torch::jit::drop(stack, info.args.size());
  self.copy_(value);
  stack.emplace_back(self);
}

} // namespace

void adopt_new_tensors(
    const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  if (!torch_hooks::is_in_backward()) {
    return;
  }
  const auto mesh = mesh_among(arguments);
  for (std::size_t i = 0; i < info.args.size() && mesh; ++i) {
    if (info.args[i].is_written && is_new(arguments[i])) {
      adopt(arguments[i].toTensor(), mesh);
    }
  }
}

void change_shape(const OpInfo& info, torch::jit::Stack& stack) {
  static const std::map<std::string, c10::OperatorName> views{
      {"aten::squeeze_", {"aten::squeeze", ""}},
      {"aten::squeeze_.dim", {"aten::squeeze", "dim"}},
      {"aten::t_", {"aten::t", ""}},
      {"aten::transpose_", {"aten::transpose", "int"}},
      {"aten::unsqueeze_", {"aten::unsqueeze", ""}}};
  if (info.name == "aten::set_.source_Tensor") {
    take_value(info, stack);
    return;
  }
  const auto view = views.find(info.name);
  ARGOSY_CHECK(
      view != views.end(),
      "[dtensor.{}] changes the shape of a DTensor in place, which is not "
      "possible; use the op that returns a new tensor",
      info.name);
  const at::Tensor self = stack[stack.size() - info.args.size()].toTensor();
  c10::Dispatcher::singleton().findOp(view->second)->callBoxed(stack);
  torch_hooks::become(self, stack.back().toTensor());
  stack.back() = self;
}

} // namespace argosy::dtensor
