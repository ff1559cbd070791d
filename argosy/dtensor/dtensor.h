#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/dtensor/dispatch/describe.h"
#include "argosy/dtensor/layout/dist_attr.h"
#include "argosy/dtensor/tensor/convert.h"

namespace at {
class Tensor;
}

// Tensors that are spread over a mesh of ranks and behave as one. They are
// at::Tensor of the global shape; LibTorch's functions, modules and optimizers
// take them, and autograd goes through.
//
// All ranks of the mesh must call the same functions, and ops on DTensors, in
// the same order; those that reshard block. What is not said to be
// differentiable makes a leaf. Ranks outside of the mesh hold nothing of the
// tensor. tensor/convert.h has the functions on tensors that are DTensors
// already.
//
// The first DTensor installs the hook `dtensor` (docs/torch-hooks.md); these
// functions throw InvalidArgument when it is switched off.
namespace argosy {

// A DTensor of what `data` holds, which must be the same on all ranks; nothing
// is sent. Each rank keeps a copy of its part. A leaf that requires grad if
// `data` does; differentiable if `data` is no leaf. A DTensor is resharded.
at::Tensor shard_tensor(
    const at::Tensor& data,
    const ProcessMesh& mesh,
    const Placements& placements);

// Makes an existing leaf a DTensor, or moves one, for all who hold it: the
// module, its parameters(), an optimizer. Its gradient goes along. Of a tensor
// of DeferredInit, each rank makes its part only. Throws
// InvalidArgument for a tensor that has a history.
void shard_tensor_(
    const at::Tensor& tensor,
    const ProcessMesh& mesh,
    const Placements& placements);

// The same for what `make` returns.
at::Tensor dtensor_from_fn(
    const std::function<at::Tensor()>& make,
    const ProcessMesh& mesh,
    const Placements& placements);

// A DTensor whose part on this rank is `local`. Its shape is `global`; when
// that is empty, all parts have the shape of this one. Differentiable. Throws
// InvalidArgument when `local` has not the shape of the part.
at::Tensor from_local(
    const at::Tensor& local,
    const ProcessMesh& mesh,
    const Placements& placements,
    const std::vector<std::int64_t>& global = {});

// Random tensors of type float: uniform in [0, 1), and of mean 0 and deviation
// 1. An element depends on the seed, on how many were drawn before, and on its
// place in the whole, so the values are the same on every mesh and placement.
at::Tensor dtensor_rand(
    const std::vector<std::int64_t>& shape,
    const ProcessMesh& mesh,
    const Placements& placements);
at::Tensor dtensor_randn(
    const std::vector<std::int64_t>& shape,
    const ProcessMesh& mesh,
    const Placements& placements);

// The same on the current mesh of this rank (set_mesh()). Throw InvalidArgument
// when it has none.
at::Tensor shard_tensor(const at::Tensor& data, const Placements& placements);
void shard_tensor_(const at::Tensor& tensor, const Placements& placements);
at::Tensor dtensor_from_fn(
    const std::function<at::Tensor()>& make, const Placements& placements);
at::Tensor from_local(
    const at::Tensor& local,
    const Placements& placements,
    const std::vector<std::int64_t>& global = {});
at::Tensor dtensor_rand(
    const std::vector<std::int64_t>& shape, const Placements& placements);
at::Tensor dtensor_randn(
    const std::vector<std::int64_t>& shape, const Placements& placements);

// Starts the numbers of the calling thread's rank anew, for these and for all
// random ops on DTensors. All ranks must give the same seed.
void dtensor_manual_seed(std::uint64_t seed);

// Plain tensors that enter a mesh must be the same on all its ranks: those that
// stand beside DTensors in ops, that shard_tensor() is given, and parts that
// from_local() has copies of. The ranks compare hashes of each the first
// `times` times (by op and shape), and throw InvalidArgument on all ranks when
// they differ; initial values of parameters are always compared. 0: nothing is.
// Initially ARGOSY_CHECK_VALUES, or 3. All ranks must give the same number.
void dtensor_check_values(int times);

} // namespace argosy
