#include "argosy/dtensor/tensor/expected.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "argosy/dtensor/tensor/interpreter.h"
#include "argosy/torch_hooks/op_info.h"

namespace argosy::dtensor {

namespace {

using ArgKind = OpInfo::ArgKind;

at::Tensor on_meta(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return tensor;
  }
  const auto options =
      at::TensorOptions(tensor.scalar_type()).device(at::kMeta);
  if (tensor.storage_offset() == 0) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  }
  std::int64_t end = tensor.storage_offset() + 1;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    end += std::max<std::int64_t>(tensor.size(dim) - 1, 0) * tensor.stride(dim);
  }
  return at::empty({end}, options)
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

c10::IValue on_meta(const c10::IValue& value, ArgKind kind) {
  if (value.isDevice()) {
    return c10::Device(at::kMeta);
  }
  if (value.isTensor()) {
    return on_meta(value.toTensor());
  }
  if (kind != ArgKind::Tensors || value.isNone()) {
    return value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector()) {
      list.push_back(on_meta(each));
    }
    return list;
  }
  c10::List<c10::optional<at::Tensor>> list;
  for (const c10::IValue& each : value.toListRef()) {
    list.push_back(
        each.isTensor() ? c10::make_optional(on_meta(each.toTensor()))
                        : c10::nullopt);
  }
  return list;
}

void add(std::vector<Expected>& expected, const c10::IValue& value) {
  const at::Tensor& tensor = value.toTensor();
  if (tensor.defined()) {
    expected.push_back(
        {.shape = tensor.sizes().vec(),
         .dtype = tensor.scalar_type(),
         .strides = tensor.strides().vec(),
         .offset = tensor.storage_offset()});
  } else {
    expected.emplace_back();
  }
}

std::vector<Expected> expected_of(const c10::IValue& value) {
  std::vector<Expected> expected;
  if (value.isTensor()) {
    add(expected, value);
  } else if (value.isTensorList()) {
    for (const c10::IValue& each : value.toListRef()) {
      add(expected, each);
    }
  }
  return expected;
}

// Ops that turned out to have no meta kernel: to find it again would cost an
// exception with its backtrace.
class OpSet {
 public:
  bool has(const OpInfo& info) {
    const std::lock_guard lock(mutex_);
    return ops_.count(&info) != 0;
  }
  void add(const OpInfo& info) {
    const std::lock_guard lock(mutex_);
    ops_.insert(&info);
  }

 private:
  std::mutex mutex_;
  std::set<const OpInfo*> ops_; // guarded by mutex_
};

OpSet& without_kernel() {
  static OpSet ops;
  return ops;
}

} // namespace

std::vector<std::vector<Expected>> expected_outputs(
    const c10::OperatorHandle& op,
    const OpInfo& info,
    const c10::IValue* arguments) {
  if (without_kernel().has(info)) {
    return {};
  }
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    stack.push_back(on_meta(arguments[i], info.args[i].kind));
  }
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    forget_interpreter_error();
    without_kernel().add(info);
    return {};
  } catch (const std::exception&) {
    forget_interpreter_error();
    return {}; // an error of the arguments comes up when it runs
  }
  std::vector<std::vector<Expected>> outputs;
  for (const c10::IValue& value : stack) {
    outputs.push_back(expected_of(value));
  }
  return outputs;
}

} // namespace argosy::dtensor
