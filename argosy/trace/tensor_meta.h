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

// Tensors of those types and shapes, with undefined values.
std::vector<at::Tensor> make_tensors(const Metas& metas);

// Those that require a gradient: what backward returns for them.
Metas gradients_of(const Metas& metas);

// As numbers, to send them.
std::vector<std::int64_t> pack(const Metas& metas);
Metas unpack(const std::vector<std::int64_t>& numbers);

// A hash.
std::int64_t fingerprint(const Metas& metas);

} // namespace argosy::trace
