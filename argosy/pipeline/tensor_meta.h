#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::pipeline {

// What a stage must know of a tensor before it comes.
struct TensorMeta {
  c10::ScalarType type = c10::kFloat;
  std::vector<std::int64_t> sizes;
  bool requires_grad = false;

  bool operator==(const TensorMeta&) const = default;
};
using Metas = std::vector<TensorMeta>;

Metas metas_of(const std::vector<at::Tensor>& tensors);
std::string to_string(const Metas& metas);

// Tensors of those shapes, with any values.
std::vector<at::Tensor> make_tensors(const Metas& metas);

// Of the gradients that come back for such tensors.
Metas gradients_of(const Metas& metas);

// As numbers, for a message.
std::vector<std::int64_t> pack(const Metas& metas);
Metas unpack(const std::vector<std::int64_t>& numbers);

// Differs where metas differ, but for chance.
std::int64_t fingerprint(const Metas& metas);

} // namespace argosy::pipeline
