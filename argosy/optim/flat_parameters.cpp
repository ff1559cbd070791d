#include "argosy/optim/flat_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/optim/spans.h"

namespace argosy::optim {

namespace {

void check_param(
    const at::Tensor& param, std::size_t index, c10::ScalarType type) {
  ARGOSY_CHECK(
      param.defined() && param.device().is_cpu() &&
          param.layout() == c10::kStrided && format_of(param),
      "[optim.flat] parameter {}: expected a dense tensor of floats on the "
      "CPU; for a DTensor pass to_local()",
      index);
  ARGOSY_CHECK(
      param.scalar_type() == type,
      "[optim.flat] parameter {} has type {}, expected that of the first, {}",
      index,
      c10::toString(param.scalar_type()),
      c10::toString(type));
}

void check_params(const std::vector<at::Tensor>& params) {
  ARGOSY_CHECK(!params.empty(), "[optim.flat] there are no parameters");
  std::unordered_set<const void*> seen;
  for (std::size_t i = 0; i < params.size(); ++i) {
    check_param(params[i], i, params[0].scalar_type());
    ARGOSY_CHECK(
        seen.insert(params[i].unsafeGetTensorImpl()).second,
        "[optim.flat] parameter {} is listed twice",
        i);
  }
}

FlatLayout plan(
    const std::vector<at::Tensor>& tensors,
    c10::ScalarType type,
    std::size_t alignment = kCacheLine) {
  std::vector<std::int64_t> numels;
  for (const at::Tensor& tensor : tensors) {
    numels.push_back(tensor.numel());
  }
  return plan_flat(numels, c10::elementSize(type), alignment);
}

// The size of a huge page on x86-64.
constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;

// Allocates zeros in huge pages if the system grants them: kernels read several
// buffers at a time, and small pages would exceed the processor's TLB.
at::Tensor new_zeros(std::int64_t numel, c10::ScalarType type) {
  at::Tensor buffer = at::empty({numel}, at::TensorOptions(type));
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.data_ptr());
  // Only huge pages that lie in the buffer as a whole. Before zero_(): Linux
  // chooses the size of a page when it is first touched.
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + buffer.nbytes()) / kHugePage * kHugePage;
  if (first < end) {
    // If madvise() fails, pages stay small.
    madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
  }
  return buffer.zero_();
}

at::Tensor allocate(
    const Allocator& allocator,
    const FlatLayout& layout,
    c10::ScalarType type) {
  if (!allocator) {
    return new_zeros(layout.numel, type);
  }
  at::Tensor buffer = allocator({layout.numel}, type);
  ARGOSY_CHECK(
      buffer.numel() == layout.numel && buffer.scalar_type() == type &&
          buffer.is_contiguous() && buffer.device().is_cpu(),
      "[optim.flat] the allocator returned {} elements of {}, expected {} "
      "contiguous ones of {}",
      buffer.numel(),
      c10::toString(buffer.scalar_type()),
      layout.numel,
      c10::toString(type));
  return buffer.zero_();
}

// A parameter with gaps or overlaps becomes contiguous.
at::Tensor place(
    const at::Tensor& buffer, const FlatSlot& slot, const at::Tensor& param) {
  if (param.is_non_overlapping_and_dense()) {
    return alias(buffer, slot.begin, param);
  }
  return alias(buffer, slot.begin, param.contiguous());
}

// Same address and order: nothing to copy. Users and optimizers may have
// replaced the tensor since.
bool shares(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && same_order(a, b);
}

bool is_dense(const at::Tensor& grad) {
  return grad.defined() && grad.layout() == c10::kStrided;
}

} // namespace

at::Tensor alias(
    const at::Tensor& buffer, std::int64_t begin, const at::Tensor& like) {
  at::Tensor result = at::empty({0}, buffer.options());
  // set_() on a new tensor, because narrow() and view() would make a view in
  // the eyes of autograd.
  result.set_(
      buffer.storage(),
      buffer.storage_offset() + begin,
      like.sizes(),
      like.strides());
  return result;
}

// One copy of each parameter into its slot; from then on the user's tensors and
// the buffers are the same memory, and a collective or a kernel handles all of
// them in one call.
FlatParameters::FlatParameters(
    std::vector<at::Tensor> params, FlatOptions options)
    : params_(std::move(params)) {
  check_params(params_);
  const at::NoGradGuard no_grad;
  const c10::ScalarType type = params_[0].scalar_type();
  layout_ = plan(params_, type, options.alignment);
  data_ = allocate(options.allocate_data, layout_, type);
  grad_ = allocate(options.allocate_grad, layout_, type);
  for (std::size_t i = 0; i < params_.size(); ++i) {
    data_views_.push_back(place(data_, layout_.slots[i], params_[i]));
    grad_views_.push_back(place(grad_, layout_.slots[i], params_[i]));
    adopt_param(i);
  }
  collect_grads();
}

at::Tensor FlatParameters::data(std::int64_t begin, std::int64_t end) const {
  return data_.slice(0, begin, end);
}

at::Tensor FlatParameters::grad(std::int64_t begin, std::int64_t end) const {
  return grad_.slice(0, begin, end);
}

void FlatParameters::adopt_param(std::size_t index) {
  at::Tensor& param = params_[index];
  at::Tensor& view = data_views_[index];
  if (!shares(param, view)) {
    view.copy_(param);
    // set_data() keeps the tensor's identity: modules, optimizers and hooks
    // that hold it see the new memory.
    param.set_data(view);
  }
}

void FlatParameters::adopt_grad(std::size_t index) {
  at::Tensor& grad = params_[index].mutable_grad();
  at::Tensor& view = grad_views_[index];
  if (is_dense(grad) && !shares(grad, view)) {
    view.copy_(grad);
    grad = view;
    // A gradient in its own slot is left alone; a sparse one stays with the
    // user.
  } else if (!is_dense(grad)) {
    // Without a dense gradient the slot counts as zeros in sums over the
    // buffer.
    view.zero_();
  }
}

void FlatParameters::attach_grads() {
  collect_grads();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    at::Tensor& grad = params_[i].mutable_grad();
    if (!grad.defined()) {
      grad = grad_views_[i];
    }
  }
}

void FlatParameters::collect_params() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    adopt_param(i);
  }
}

void FlatParameters::collect_grads() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    adopt_grad(i);
  }
}

void FlatParameters::zero_grad() {
  const at::NoGradGuard no_grad;
  grad_.zero_();
  for (std::size_t i = 0; i < params_.size(); ++i) {
    at::Tensor& grad = params_[i].mutable_grad();
    if (grad.defined() && !(is_dense(grad) && shares(grad, grad_views_[i]))) {
      // Gradients outside of the buffer, such as sparse ones, are zeroed on
      // their own.
      grad = grad.detach().zero_();
    }
  }
}

std::vector<std::vector<at::Tensor>> split_by_type(
    const std::vector<at::Tensor>& params) {
  std::vector<std::vector<at::Tensor>> by_type;
  for (const at::Tensor& param : params) {
    auto same = std::ranges::find_if(by_type, [&](auto& list) {
      return list[0].scalar_type() == param.scalar_type();
    });
    if (same == by_type.end()) {
      by_type.emplace_back();
      same = std::prev(by_type.end());
    }
    same->push_back(param);
  }
  return by_type;
}

std::vector<FlatParameters> flatten_by_type(
    const std::vector<at::Tensor>& params, const FlatOptions& options) {
  std::vector<FlatParameters> flat;
  for (auto& list : split_by_type(params)) {
    flat.emplace_back(std::move(list), options);
  }
  return flat;
}

FlatTensors flat_zeros(
    const std::vector<at::Tensor>& like, c10::ScalarType type) {
  const FlatLayout layout = plan(like, type);
  FlatTensors flat{new_zeros(layout.numel, type), {}};
  for (std::size_t i = 0; i < like.size(); ++i) {
    flat.views.push_back(place(flat.buffer, layout.slots[i], like[i]));
  }
  return flat;
}

} // namespace argosy::optim
