#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/checkpoint/import/tensor_set.h"
#include "argosy/checkpoint/tensor_info.h"

namespace argosy::checkpoint {

// A tensor of a file of torch.save: `info.name` is its key; it has a storage of
// its own, row-major.
struct PickledTensor {
  TensorInfo info;
  std::string component; // key of the dict it stands in; empty: the root
  std::string storage;   // key of its storage
};

// The tensors of a set, by their order. Nested if they are of components: then
// those without one are the model's.
struct PickledTensors {
  std::vector<PickledTensor> tensors;
  bool nested = false;
};
PickledTensors pickled_tensors(const TensorSet& set);

// data.pkl of one tensor, and of a number.
std::string pickle_of_tensor(const PickledTensor& tensor);
std::string pickle_of_integer(std::int64_t value);

// data.pkl of a dict of tensors, and of one dict for each component.
// torch.load(weights_only=True) reads it. Types that have no storage class
// (float8, unsigned 16 to 64 bits) need PyTorch 2.3. `step` stands at the root
// unless it is negative.
std::string pickle_of_tensors(
    const std::vector<PickledTensor>& tensors, std::int64_t step = -1);

} // namespace argosy::checkpoint
