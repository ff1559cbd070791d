#include "argosy/comm/symmetric.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/group.h"
#include "argosy/common/error.h"

namespace argosy::comm {

at::Tensor symmetric_empty(
    c10::IntArrayRef sizes,
    c10::ScalarType dtype,
    const std::shared_ptr<Group>& group) {
  std::size_t bytes = c10::elementSize(dtype);
  for (const std::int64_t size : sizes) {
    ARGOSY_CHECK(
        size >= 0, "[comm.symmetric_empty] size {}, expected >= 0", size);
    bytes *= static_cast<std::size_t>(size);
  }
  std::shared_ptr<std::byte> memory;
  (group ? group : get_group())
      ->run("symmetric_empty", [&](Backend& backend, Deadline deadline) {
        memory = backend.symmetric_memory(bytes, deadline);
      });
  void* data = memory.get();
  return at::from_blob(
      data,
      sizes,
      [memory = std::move(memory)](void*) {},
      at::TensorOptions().dtype(dtype));
}

} // namespace argosy::comm
