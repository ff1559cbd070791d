#include "argosy/data_parallel/bucket_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

#include "argosy/comm/symmetric.h"

namespace argosy::data_parallel {

at::Tensor bucket_memory(
    std::int64_t count, c10::ScalarType type, const GroupPtr& group) {
  // Only processes of one host gain: threads read each other's memory anyway,
  // and hosts share none.
  if (group->backend_name() == "shm") {
    return comm::symmetric_empty({count}, type, group).zero_();
  }
  return at::zeros({count}, type);
}

at::Tensor bucket_part(
    const at::Tensor& flat, std::int64_t begin, at::IntArrayRef sizes) {
  // Autograd must not take the result for a view: it becomes the gradient of a
  // parameter.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    count *= size;
  }
  return flat.narrow(0, begin, count).view(sizes);
}

} // namespace argosy::data_parallel
