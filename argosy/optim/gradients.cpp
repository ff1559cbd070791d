#include "argosy/optim/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/optim/local.h"
#include "argosy/optim/spans.h"
#include "argosy/torch_hooks/backward.h"

namespace argosy::optim {

namespace {

// The memory of the gradients. Sparse gradients are coalesced, because
// duplicate elements would count twice.
std::vector<at::Tensor> dense_parts(const std::vector<at::Tensor>& params) {
  std::vector<at::Tensor> parts;
  parts.reserve(params.size());
  for (const at::Tensor& param : params) {
    at::Tensor& grad = param.mutable_grad();
    if (!grad.defined()) {
      continue;
    }
    if (is_dtensor(grad) && is_dtensor(param)) {
      grad = beside(grad, param); // so that a Partial is reduced only once
      parts.push_back(grad);
    } else if (grad.layout() == c10::kSparse) {
      grad = grad.coalesce();
      parts.push_back(grad._values());
    } else {
      parts.push_back(grad);
    }
  }
  return parts;
}

bool has_kernel(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && format_of(tensor) &&
      tensor.is_non_overlapping_and_dense();
}

// Runs the kernel on tensors that have a format, and `otherwise` on the others.
template <typename Step, typename Otherwise>
std::vector<Sums> apply(
    const std::vector<at::Tensor>& tensors,
    const KernelRow<Step>& row,
    const Step& step,
    const Otherwise& otherwise) {
  std::vector<Span> spans;
  spans.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (has_kernel(tensor)) {
      spans.push_back(span_of(tensor));
    } else {
      otherwise(tensor);
    }
  }
  return run(row, spans, step);
}

void bump(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    torch_hooks::bump_version(tensor);
  }
}

// Norms other than the Euclidean one: the maximum, or the norm of the norms.
double other_norm(const std::vector<at::Tensor>& tensors, double type) {
  double total = 0;
  for (const at::Tensor& tensor : tensors) {
    const double norm = tensor.norm(type).item<double>();
    total =
        std::isinf(type) ? std::max(total, norm) : total + std::pow(norm, type);
  }
  return std::isinf(type) ? total : std::pow(total, 1 / type);
}

double norm_of(const std::vector<at::Tensor>& tensors, double type) {
  if (type == 2) {
    return std::sqrt(squared_norm(tensors));
  }
  if (type == 0) {
    return static_cast<double>(tensors.size()); // as in torch
  }
  return other_norm(tensors, type);
}

void scale(const std::vector<at::Tensor>& tensors, double factor) {
  apply(tensors, kernels().scale, {factor}, [&](at::Tensor tensor) {
    tensor.mul_(factor);
  });
  bump(tensors);
}

// For DTensors. Adds up the sums of parameters with the same placements before
// item() reduces them over the ranks.
double sum_of_squares(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> sums;
  for (const at::Tensor& tensor : tensors) {
    // Stays Partial over the axes that shard the tensor until item().
    const at::Tensor own = tensor.to(c10::kDouble).square().sum();
    const auto like = std::ranges::find_if(
        sums, [&](auto& sum) { return dist_attr(sum) == dist_attr(own); });
    if (like == sums.end()) {
      sums.push_back(own);
    } else {
      *like = *like + own;
    }
  }
  double total = 0;
  for (const at::Tensor& sum : sums) {
    total += sum.item<double>();
  }
  return total;
}

} // namespace

double squared_norm(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  double total = 0;
  std::vector<at::Tensor> spread;
  const auto sums = apply(
      tensors, kernels().squares, NormStep{}, [&](const at::Tensor& tensor) {
        if (is_dtensor(tensor)) {
          spread.push_back(tensor);
          return;
        }
        const double norm = tensor.norm().item<double>();
        total += norm * norm;
      });
  total += sum_of_squares(spread);
  for (const Sums& sum : sums) {
    total += sum[0];
  }
  return total;
}

double squared_grad_norm(const std::vector<at::Tensor>& params) {
  const at::NoGradGuard no_grad;
  return squared_norm(dense_parts(params));
}

void scale_grads(const std::vector<at::Tensor>& params, double factor) {
  const at::NoGradGuard no_grad;
  scale(dense_parts(params), factor);
}

// 1e-6 as in torch, so that clipping gives the same values.
double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor > 1 ? 1 : factor; // NaN stays
}

double clip_grad_norm_(
    const std::vector<at::Tensor>& params,
    double max_norm,
    double norm_type,
    bool error_if_nonfinite) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = dense_parts(params);
  if (grads.empty()) {
    return 0;
  }
  const double norm = norm_of(grads, norm_type);
  ARGOSY_CHECK(
      !error_if_nonfinite || std::isfinite(norm),
      "[optim.clip_grad_norm] the norm of the gradients is {}, expected a "
      "finite one",
      norm);
  const double factor = clip_factor(norm, max_norm);
  if (factor != 1) {
    scale(grads, factor);
  }
  return norm;
}

void clip_grad_value_(
    const std::vector<at::Tensor>& params, double clip_value) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = dense_parts(params);
  const ClampStep step{-clip_value, clip_value};
  apply(grads, kernels().clamp, step, [&](at::Tensor tensor) {
    tensor.clamp_(-clip_value, clip_value);
  });
  bump(grads);
}

} // namespace argosy::optim
