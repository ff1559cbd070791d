#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "argosy/checkpoint/import/tensor_reader.h"
#include "argosy/checkpoint/import/tensor_set.h"
#include "argosy/common/error.h"

namespace argosy::testing {

// The elements of a tensor of a set, row-major.
template <typename T>
std::vector<T> values_of(
    const checkpoint::TensorSet& set, const std::string& name) {
  const checkpoint::SourceTensor* tensor = set.find(name);
  if (tensor == nullptr) {
    throw InvalidArgument("no tensor " + name);
  }
  std::vector<T> values(
      static_cast<std::size_t>(dtensor::numel(tensor->info.shape)));
  checkpoint::TensorReader().read(
      *tensor,
      dtensor::whole(tensor->info.shape),
      0,
      dtensor::numel(tensor->info.shape),
      reinterpret_cast<std::byte*>(values.data()));
  return values;
}

// start, start + 1, ...
template <typename T>
std::vector<T> counting(std::size_t count, T start = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(start + static_cast<T>(i));
  }
  return values;
}

inline std::vector<std::string> names_of(const checkpoint::TensorSet& set) {
  std::vector<std::string> names;
  for (const auto& tensor : set.tensors) {
    names.push_back(tensor.info.name);
  }
  return names;
}

} // namespace argosy::testing
