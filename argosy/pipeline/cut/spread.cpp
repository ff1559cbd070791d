#include "argosy/pipeline/cut/spread.h"

#include "argosy/dtensor/dtensor.h"

namespace argosy::pipeline {

namespace {

Placements placements_for(const Spread& spread, const at::Tensor& tensor) {
  return tensor.dim() > 0
      ? spread.inputs
      : Placements(static_cast<std::size_t>(spread.mesh.ndim()), Replicate());
}

} // namespace

std::vector<at::Tensor> Spread::wrap(
    const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> wrapped;
  for (const at::Tensor& each : tensors) {
    wrapped.push_back(
        is_dtensor(each) ? each
                         : from_local(each, mesh, placements_for(*this, each)));
  }
  return wrapped;
}

std::vector<at::Tensor> Spread::unwrap(
    const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& each : tensors) {
    parts.push_back(
        is_dtensor(each)
            ? to_local(reshard(each, mesh, placements_for(*this, each)))
            : each);
  }
  return parts;
}

} // namespace argosy::pipeline
