#include "argosy/parallel/data/bucket_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

namespace argosy::parallel {

at::Tensor bucket_memory(
    std::size_t count, c10::ScalarType type, const GroupPtr& /*group*/) {
  return at::zeros({static_cast<std::int64_t>(count)}, type);
}

at::Tensor bucket_part(
    const at::Tensor& flat, std::size_t begin, at::IntArrayRef sizes) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    count *= size;
  }
  return flat.narrow(0, static_cast<std::int64_t>(begin), count).view(sizes);
}

} // namespace argosy::parallel
