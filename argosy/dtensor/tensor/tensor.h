#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "argosy/dtensor/tensor/layer_hooks.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

// What a DTensor is made of. To LibTorch it is a wrapper (torch_hooks) of the
// global shape. Its device is that of its parts: the autograd engine then runs
// backward where it would without us, and tensors that a model makes with
// x.options() are plain ones beside it.
namespace argosy::dtensor {

struct Parts {
  at::Tensor local; // never requires grad
  std::shared_ptr<MeshState> mesh;
  Placements placements;
  // A view in name only: what is written to it would not reach its base.
  bool is_copied_view = false;
  // Mesh axes, as bits, on which no op moves it that has another way: the
  // weights of tensor parallelism, which are never gathered.
  std::uint8_t pinned = 0;
  // Of the layer whose weight it is; null for most.
  std::shared_ptr<const LayerHooks> hooks = nullptr;
};

// Makes a DTensor of this rank's part. Trusts that `local` has the right shape,
// and that install_dispatch() was called.
//
// Strides must be the same on all ranks, since LibTorch does one thing or
// another by them; so they are never taken from the part, whose own may differ
// where it has one element. None: contiguous, whatever the part is.
at::Tensor make_dtensor(
    Parts&& parts,
    at::IntArrayRef global,
    at::IntArrayRef strides = {},
    std::int64_t offset = 0);

// Throws InvalidArgument, tagged with `op`, for what cannot be a part: sparse
// tensors and the like.
void check_is_strided(const at::Tensor& tensor, const std::string& op);

// The same tensor with conjugation and negation that LibTorch puts off done:
// the whole does not show that its parts wait for them.
inline at::Tensor without_lazy_bits(at::Tensor tensor) {
  if (tensor.is_conj() || tensor.is_neg()) [[unlikely]] {
    tensor = tensor.resolve_conj().resolve_neg();
  }
  return tensor;
}

// The parts of a DTensor; null of any other tensor.
inline Parts* parts_of(const at::Tensor& tensor) {
  return torch_hooks::is_wrapper(tensor)
      ? torch_hooks::find_owned<Parts>(tensor)
      : nullptr;
}

// Throws InvalidArgument, tagged with `op`, when it is no DTensor.
Parts& require_parts(const at::Tensor& tensor, const char* op);

} // namespace argosy::dtensor
