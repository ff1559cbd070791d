// item(): a number that all ranks of the mesh must ask for together, though it
// does not look so.

#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense.h>

#include <algorithm>
#include <optional>

#include "argosy/common/error.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/attendance.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

at::Scalar item(const at::Tensor& self) {
  ARGOSY_CHECK(
      self.numel() == 1,
      "[dtensor.item] a tensor of shape {}, expected one element",
      self.sizes());
  const Parts* parts = parts_of(self);
  const bool sends = parts != nullptr && !is_replicated(parts->placements);
  const auto roll = sends ? attendance() : nullptr;
  std::optional<Attendance::Call> call;
  if (roll) {
    std::vector<int> ranks = parts->mesh->mesh().process_ids();
    std::ranges::sort(ranks);
    call.emplace(
        *roll,
        std::move(ranks),
        str("item() of a DTensor, ", parts->placements, ","));
  }
  return at::_local_scalar_dense(self);
}

} // namespace

void add_item_kernels(torch_hooks::WrapperKernels& kernels) {
  kernels.autograd.impl("item", &item);
}

} // namespace argosy::dtensor
