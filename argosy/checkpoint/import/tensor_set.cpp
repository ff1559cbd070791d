#include "argosy/checkpoint/import/tensor_set.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

std::string_view to_string(Format format) {
  switch (format) {
    case Format::Argosy:
      return "argosy";
    case Format::Safetensors:
      return "safetensors";
    case Format::Torch:
      return "torch";
    case Format::Dcp:
      return "dcp";
  }
  return "";
}

const SourceTensor* TensorSet::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(),
      tensors.end(),
      name,
      [](const SourceTensor& tensor, std::string_view wanted) {
        return tensor.info.name < wanted;
      });
  return found != tensors.end() && found->info.name == name ? &*found : nullptr;
}

std::uint64_t TensorSet::tensor_bytes() const {
  std::uint64_t bytes = 0;
  for (const SourceTensor& tensor : tensors) {
    bytes += bytes_of(tensor.info);
  }
  return bytes;
}

std::uint64_t bytes_of(const TensorInfo& info) {
  return static_cast<std::uint64_t>(dtensor::numel(info.shape)) *
      element_bytes(info.dtype);
}

void sort_tensors(TensorSet& set) {
  std::sort(
      set.tensors.begin(),
      set.tensors.end(),
      [](const SourceTensor& a, const SourceTensor& b) {
        return a.info.name < b.info.name;
      });
  const auto twice = std::adjacent_find(
      set.tensors.begin(),
      set.tensors.end(),
      [](const SourceTensor& a, const SourceTensor& b) {
        return a.info.name == b.info.name;
      });
  if (twice != set.tensors.end()) {
    throw CheckpointError(
        str("[checkpoint.open] ",
            set.url,
            ": two tensors are called ",
            twice->info.name));
  }
}

} // namespace argosy::checkpoint
