// Ops that LibTorch takes apart in a way that DTensors cannot go: after it has
// read the elements of a tensor from its memory, which a DTensor has not (they
// get a plain tensor to read), or with plain tensors in between.

#include <ATen/core/Tensor.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/tensor_split.h>

#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

std::vector<std::int64_t> integers_in(const at::Tensor& tensor) {
  const at::Tensor read =
      full_tensor(tensor.detach()).to(at::kLong).contiguous();
  const auto* begin = read.data_ptr<std::int64_t>();
  return {begin, begin + read.numel()};
}

std::vector<at::Tensor> tensor_split(
    const at::Tensor& self, const at::Tensor& where, std::int64_t dim) {
  const auto numbers = integers_in(where);
  return where.dim() == 0 ? at::tensor_split(self, numbers.at(0), dim)
                          : at::tensor_split(self, numbers, dim);
}

at::Tensor ctc_loss(
    const at::Tensor& log_probs,
    const at::Tensor& targets,
    const at::Tensor& input_lengths,
    const at::Tensor& target_lengths,
    std::int64_t blank,
    std::int64_t reduction,
    bool zero_infinity) {
  return at::ctc_loss(
      log_probs,
      targets,
      integers_in(input_lengths),
      integers_in(target_lengths),
      blank,
      reduction,
      zero_infinity);
}

} // namespace

void add_reader_kernels(torch_hooks::WrapperKernels& kernels) {
  kernels.autograd.impl(
      "tensor_split.tensor_indices_or_sections", &tensor_split);
  kernels.autograd.impl("ctc_loss.Tensor", &ctc_loss);
  // Not differentiable, and taken apart with plain tensors to write to.
  for (const char* name :
       {"linalg_matrix_rank",
        "linalg_matrix_rank.atol_rtol_float",
        "linalg_matrix_rank.atol_rtol_tensor",
        "linalg_matrix_rank.tol_tensor"}) {
    kernels.autograd.impl(name, kernels.execute());
  }
}

} // namespace argosy::dtensor
