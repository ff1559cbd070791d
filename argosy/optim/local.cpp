#include "argosy/optim/local.h"

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"

namespace argosy::optim {

// A reference into the DTensor: entries of a step point to it.
const at::Tensor& local_of(const at::Tensor& tensor) {
  const dtensor::Parts* parts = dtensor::parts_of(tensor);
  return parts == nullptr ? tensor : parts->local;
}

std::vector<at::Tensor> locals_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> locals;
  locals.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    locals.push_back(local_of(tensor));
  }
  return locals;
}

at::Tensor beside(const at::Tensor& grad, const at::Tensor& param) {
  const Placements placements = placements_of(param);
  ARGOSY_CHECK(
      !has_partial(placements),
      "[optim.step] a parameter is {}, expected Shard and Replicate",
      placements);
  return reshard(grad, process_mesh_of(param), placements);
}

at::Tensor global_like(const at::Tensor& local, const at::Tensor& param) {
  const dtensor::Parts* parts = dtensor::parts_of(param);
  if (parts == nullptr) {
    return local;
  }
  return dtensor::make_dtensor(
      {.local = local, .mesh = parts->mesh, .placements = parts->placements},
      param.sizes());
}

at::Tensor local_like(const at::Tensor& global, const at::Tensor& param) {
  if (!is_dtensor(param)) {
    return global;
  }
  return local_of(
      shard_tensor(global, process_mesh_of(param), placements_of(param)));
}

} // namespace argosy::optim
