#include "argosy/checkpoint/manifest.h"

#include <algorithm>

namespace argosy::checkpoint {

const TensorRecord* Manifest::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(
      tensors, name, {}, [](const TensorRecord& tensor) {
        return std::string_view(tensor.info.name);
      });
  return at != tensors.end() && at->info.name == name ? &*at : nullptr;
}

std::uint64_t Manifest::tensor_bytes() const {
  std::uint64_t bytes = 0;
  for (const TensorRecord& tensor : tensors) {
    bytes += static_cast<std::uint64_t>(dtensor::numel(tensor.info.shape)) *
        element_bytes(tensor.info.dtype);
  }
  return bytes;
}

bool is_of_rank(std::string_view name) {
  return name.starts_with("rank/");
}

std::optional<Hash128> root_of(const Manifest& manifest) {
  std::map<std::string, Hash128> roots;
  for (const TensorRecord& tensor : manifest.tensors) {
    if (is_of_rank(tensor.info.name)) {
      continue;
    }
    if (!tensor.root) {
      return std::nullopt;
    }
    roots.emplace(tensor.info.name, *tensor.root);
  }
  return root_of(roots);
}

} // namespace argosy::checkpoint
