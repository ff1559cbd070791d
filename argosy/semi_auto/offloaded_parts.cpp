#include "argosy/semi_auto/offloaded_parts.h"

#include <ATen/ops/from_blob.h>

#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/dtensor/tensor/value_checks.h"

namespace argosy::semi_auto {

at::Tensor OffloadedParts::make(const at::Tensor& like) {
  const at::Tensor part = memory_->make(like.numel(), like.scalar_type());
  if (like.numel() == 0) {
    return part.view(like.sizes());
  }
  return at::from_blob(
      part.data_ptr(),
      like.sizes(),
      [memory = memory_](void*) {},
      part.options());
}

void OffloadedParts::move(const at::Tensor& dtensor) {
  at::Tensor& local = dtensor::require_parts(dtensor, "offload").local;
  const at::Tensor part = make(local);
  part.copy_(local);
  local = part;
  memory_->let_go(part, true);
  moved_.push_back(part);
}

void OffloadedParts::take(at::Tensor& gradient, const at::Tensor& parameter) {
  const at::Tensor local = to_local(gradient);
  at::Tensor& part = gradients_[parameter.unsafeGetTensorImpl()];
  if (!part.defined() || part.sizes() != local.sizes() ||
      part.scalar_type() != local.scalar_type()) {
    part = make(local);
  }
  if (local.data_ptr() != part.data_ptr()) {
    memory_->need(part);
    part.copy_(local);
    const dtensor::TrustedValues equal;
    gradient = from_local(
        part,
        process_mesh_of(gradient),
        placements_of(gradient),
        gradient.sizes().vec());
  }
  memory_->let_go(part, true);
}

void OffloadedParts::let_go() {
  for (const at::Tensor& part : moved_) {
    memory_->let_go(part, true);
  }
}

} // namespace argosy::semi_auto
