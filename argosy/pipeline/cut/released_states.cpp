#include "argosy/pipeline/cut/released_states.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/memoryless.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/world/world.h"

namespace argosy::pipeline {

namespace {

using torch_hooks::become;

// Linux backs an anonymous mapping page by page: reads see a shared page of
// zeros, and only written pages take memory. MAP_NORESERVE lets the
// placeholders of a model exceed the memory of the host. mmap() refuses a
// length of 0, hence at least one byte.
at::Tensor lazy_zeros(const at::Tensor& like) {
  const std::size_t bytes =
      std::max<std::size_t>(like.numel() * like.itemsize(), 1);
  void* data = ::mmap(
      nullptr,
      bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  if (data == MAP_FAILED) {
    throw SystemError(with_errno(str("[pipeline.record] mmap of ", bytes)));
  }
  return at::from_blob(
      data,
      like.sizes(),
      [bytes](void* begin) { ::munmap(begin, bytes); },
      at::TensorOptions(like.scalar_type()));
}

at::Tensor meta_like(const at::Tensor& tensor) {
  return at::empty_strided(
      tensor.sizes(),
      tensor.strides(),
      at::TensorOptions(tensor.scalar_type()).device(at::kMeta));
}

// Where a tensor's values are: in its part, of a DTensor.
at::Tensor values_of(const at::Tensor& tensor) {
  const dtensor::Parts* parts = dtensor::parts_of(tensor);
  return parts != nullptr ? parts->local : tensor;
}

void set_values(const at::Tensor& tensor, const at::Tensor& values) {
  const dtensor::Parts* before = dtensor::parts_of(tensor);
  if (before == nullptr) {
    become(tensor, values);
    return;
  }
  dtensor::Parts parts = *before;
  parts.local = values;
  become(
      tensor,
      dtensor::make_dtensor(
          std::move(parts),
          tensor.sizes(),
          tensor.strides(),
          tensor.storage_offset()));
}

} // namespace

void release_values(const at::Tensor& tensor) {
  set_values(tensor, meta_like(values_of(tensor)));
  tensor.mutable_grad().reset();
}

void refuse_memory(const at::Tensor& tensor) {
  if (dtensor::parts_of(tensor) != nullptr) {
    return;
  }
  become(
      tensor,
      torch_hooks::make_released(
          tensor,
          str_format(
              "[pipeline.cut] a state of shape {} is on another stage of the "
              "pipeline, and has no memory on this one, which data_ptr(), "
              "storage(), torch::save() or torch::load() asked for. "
              "save_model() and load_model() of the stage write and read the "
              "whole module; CutStage::module() has the states of this stage",
              tensor.sizes())));
}

void materialize_values(const at::Tensor& tensor) {
  if (!is_deferred(tensor)) {
    return;
  }
  const at::NoGradGuard no_grad;
  const int rank = require_world("pipeline.cut")->rank();
  shard_tensor_(tensor, ProcessMesh({1}, {rank}, {"self"}), {Replicate()});
  become(tensor, to_local(tensor));
}

void ZeroPlaceholders::add(const at::Tensor& tensor) {
  const at::Tensor values = values_of(tensor);
  if (values.is_meta() || is_deferred(tensor)) {
    away_.emplace_back(tensor, torch_hooks::alias_of(tensor));
    set_values(tensor, lazy_zeros(values));
  }
}

ZeroPlaceholders::~ZeroPlaceholders() {
  for (const auto& [tensor, before] : away_) {
    become(tensor, before);
  }
}

} // namespace argosy::pipeline
