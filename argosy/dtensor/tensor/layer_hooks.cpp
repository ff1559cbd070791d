#include "argosy/dtensor/tensor/layer_hooks.h"

#include <utility>

#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/op_hook.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/trace/recorder.h"

namespace argosy::dtensor {

namespace {

const LayerHooks* hooks_of(const c10::IValue& value) {
  if (!value.isTensor()) {
    return nullptr;
  }
  const Parts* parts = parts_of(value.toTensor());
  return parts != nullptr ? parts->hooks.get() : nullptr;
}

bool is_backward(const c10::FunctionSchema& schema) {
  return schema.name().find("backward") != std::string::npos;
}

bool is_product(const c10::FunctionSchema& schema) {
  return schema.name() == "aten::matmul" || schema.name() == "aten::addmm" ||
      schema.name() == "aten::mm";
}

// Whether an argument of that name may be the weight of a layer.
bool is_weight(const c10::FunctionSchema& schema, const std::string& name) {
  return name == "weight" ||
      (is_product(schema) && (name == "other" || name == "mat2"));
}

// Of recurrent layers, which have several.
const LayerHooks* hooks_of_any(const c10::IValue& list) {
  for (const c10::IValue& each : list.toListRef()) {
    if (const LayerHooks* hooks = hooks_of(each)) {
      return hooks;
    }
  }
  return nullptr;
}

const LayerHooks* layer_hooks(
    const c10::FunctionSchema& schema, const c10::IValue* arguments) {
  if (is_backward(schema)) {
    return nullptr;
  }
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    if (is_weight(schema, name)) {
      return hooks_of(arguments[i]);
    }
    if (name == "params" && arguments[i].isTensorList()) {
      return hooks_of_any(arguments[i]);
    }
  }
  return nullptr;
}

// Of a weight that is about to be transposed. Backward transposes what it has
// saved, which is no leaf, and is no layer.
std::shared_ptr<const LayerHooks> transposed_hooks(
    const c10::FunctionSchema& schema, const c10::IValue& value) {
  const LayerHooks* hooks = hooks_of(value);
  if (hooks == nullptr || !hooks->is_linear || schema.name() != "aten::t" ||
      !value.toTensor().is_leaf()) {
    return nullptr;
  }
  return parts_of(value.toTensor())->hooks;
}

void change(
    c10::IValue& value, const std::vector<LayerHooks::Change>& changes) {
  for (const auto& each : changes) {
    value = each(value.toTensor());
  }
}

// The input is the first tensor that is no weight.
void change_input(
    c10::IValue* begin, const c10::IValue* end, const LayerHooks& hooks) {
  for (c10::IValue* value = begin; value != end; ++value) {
    if (value->isTensor() && value->toTensor().defined() &&
        hooks_of(*value) == nullptr) {
      change(*value, hooks.inputs);
      return;
    }
  }
}

void replace_hooks(
    const at::Tensor& dtensor, std::shared_ptr<const LayerHooks> hooks) {
  Parts parts = require_parts(dtensor, "set_hooks");
  parts.hooks = std::move(hooks);
  torch_hooks::become(
      dtensor,
      make_dtensor(
          std::move(parts),
          dtensor.sizes(),
          dtensor.strides(),
          dtensor.storage_offset()));
}

void run_with_hooks(torch_hooks::CaughtOp& caught) {
  const torch_hooks::UncaughtOps below(torch_hooks::OpHook::kLayer);
  const c10::FunctionSchema& schema = caught.schema();
  c10::IValue* const begin = caught.arguments();
  if (const auto kept = transposed_hooks(schema, *begin)) {
    caught.op().callBoxed(caught.stack());
    replace_hooks(caught.results()->toTensor(), kept);
    return;
  }
  const LayerHooks* hooks = layer_hooks(schema, begin);
  if (hooks == nullptr) {
    caught.op().callBoxed(caught.stack());
    return;
  }
  const LayerHooks kept = *hooks; // the weight may change in them
  change_input(begin, begin + schema.arguments().size(), kept);
  caught.op().callBoxed(caught.stack());
  change(*caught.results(), kept.outputs);
}

// The hooks of a layer belong to its op, also for a recording: LibTorch brings
// the op here before it brings it to the recorder.
void run_layer(torch_hooks::CaughtOp& caught) {
  trace::record_op(caught, [&] { run_with_hooks(caught); });
}

} // namespace

void set_hooks(
    const at::Tensor& dtensor, std::shared_ptr<const LayerHooks> hooks) {
  torch_hooks::install_op_hook(
      torch_hooks::OpHook::kLayer, "a layer with hooks", &run_layer);
  replace_hooks(dtensor, std::move(hooks));
}

} // namespace argosy::dtensor
