#include "argosy/trace/op_flops.h"

#include <ATen/core/ivalue.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace argosy::trace {

namespace {

double elements(const TensorMeta& meta) {
  return static_cast<double>(c10::multiply_integers(meta.sizes));
}

// "aten::conv2d.padding" -> "conv2d"
std::string_view bare_name(std::string_view op) {
  op.remove_prefix(std::min(op.find("::") + 2, op.size()));
  return op.substr(0, op.find('.'));
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_product(std::string_view name) {
  constexpr std::array kNames{
      "mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "mv", "addmv"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// The number of products summed up per element of a matrix product. addmm() has
// the addend first, so its operands are the tensors after it.
double inner_size(
    std::string_view name,
    const std::vector<int>& uses,
    const std::vector<TensorMeta>& metas) {
  const std::size_t first = name.find("add") == std::string_view::npos ? 0 : 1;
  if (uses.size() <= first) {
    return 1;
  }
  const auto& sizes = metas[static_cast<std::size_t>(uses[first])].sizes;
  return sizes.empty() ? 1 : static_cast<double>(sizes.back());
}

// A kernel [out, in, ...] takes in * ... products per element of the output.
double kernel_size(
    const std::vector<int>& uses, const std::vector<TensorMeta>& metas) {
  if (uses.size() < 2) {
    return 1;
  }
  const TensorMeta& kernel = metas[static_cast<std::size_t>(uses[1])];
  return kernel.sizes.empty() || kernel.sizes[0] == 0
      ? 1
      : elements(kernel) / static_cast<double>(kernel.sizes[0]);
}

} // namespace

double estimate_flops(const Node& node, const std::vector<TensorMeta>& metas) {
  double results = 0;
  // Ops in place make no value, so what they write counts as their result.
  for (const auto* values : {&node.makes, &node.writes}) {
    for (const int value : *values) {
      results += elements(metas[static_cast<std::size_t>(value)]);
    }
  }
  const std::string_view name = bare_name(node.op);
  if (is_product(name)) {
    return results * inner_size(name, node.uses, metas);
  }
  if (contains(name, "conv")) {
    return results * kernel_size(node.uses, metas);
  }
  return results;
}

double product_flops(std::string_view op, const c10::IValue* arguments) {
  constexpr std::array kKernels{"mm", "bmm", "addmm", "baddbmm"};
  const std::string_view name = bare_name(op);
  if (std::ranges::find(kKernels, name) == kKernels.end()) {
    return 0;
  }
  const std::size_t first = contains(name, "add") ? 1 : 0;
  const at::Tensor& left = arguments[first].toTensor();
  const at::Tensor& right = arguments[first + 1].toTensor();
  return static_cast<double>(left.numel()) *
      static_cast<double>(right.size(-1));
}

} // namespace argosy::trace
