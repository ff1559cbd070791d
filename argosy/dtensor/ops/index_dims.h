#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "argosy/dtensor/ops/rule.h"

// What ops that read and those that write by an index have in common.
namespace argosy::dtensor {

// Letters (letters.h) of an advanced index: dims of the tensor that are
// indexed are whole, those of the indices, which are broadcast, are together in
// the result.
struct IndexDims {
  std::string self;
  std::vector<std::string> indices; // those that are given
  std::string out;
  Shape out_shape;
  int only_dim = -1; // that is indexed, when there is one only
};

// `places` are the inputs of the indices, -1 for None. `out` is empty for a
// mask.
IndexDims index_dims(const OpCall& call, const std::vector<int>& places);

// The dim of the only index, or -1.
int only_index(const std::vector<c10::optional<at::Tensor>>& indices);

// An index as it is for this rank's part of a dim.
struct LocalIndex {
  bool is_whole = true; // the dim is not cut: nothing changes
  at::Tensor places;    // else; one beyond the last where another rank has it
};

LocalIndex local_index(
    LocalCall& call,
    std::size_t dim,
    const at::Tensor& index,
    at::IntArrayRef global);

// A copy with room for one more element along the dim, which takes what is
// meant for other ranks.
at::Tensor with_spare(const at::Tensor& tensor, std::size_t dim);

} // namespace argosy::dtensor
