#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::trace {

// A tensor without its values.
struct TensorMeta {
  c10::ScalarType type = c10::kFloat;
  std::vector<std::int64_t> sizes;
  bool requires_grad = false;

  bool operator==(const TensorMeta&) const = default;
};
using Metas = std::vector<TensorMeta>;

Metas metas_of(const std::vector<at::Tensor>& tensors);
std::string to_string(const Metas& metas);

// Allocates uninitialized tensors.
std::vector<at::Tensor> make_tensors(const Metas& metas);

// The metas of the gradients of such tensors; tensors without gradient are left
// out.
Metas gradients_of(const Metas& metas);

// Encode and decode for messages.
std::vector<std::int64_t> pack(const Metas& metas);
Metas unpack(const std::vector<std::int64_t>& numbers);

// A hash: different metas almost certainly have different fingerprints.
std::int64_t fingerprint(const Metas& metas);

} // namespace argosy::trace
