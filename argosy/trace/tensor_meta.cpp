#include "argosy/trace/tensor_meta.h"

#include <ATen/ops/empty.h>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::trace {

Metas metas_of(const std::vector<at::Tensor>& tensors) {
  Metas metas;
  for (const at::Tensor& each : tensors) {
    metas.push_back(
        {each.scalar_type(), each.sizes().vec(), each.requires_grad()});
  }
  return metas;
}

std::string to_string(const Metas& metas) {
  std::vector<std::string> texts;
  for (const TensorMeta& each : metas) {
    texts.push_back(argosy::str(
        c10::toString(each.type), " ", c10::IntArrayRef(each.sizes)));
  }
  return join(texts, ", ");
}

std::vector<at::Tensor> make_tensors(const Metas& metas) {
  std::vector<at::Tensor> tensors;
  for (const TensorMeta& each : metas) {
    tensors.push_back(at::empty(each.sizes, each.type));
  }
  return tensors;
}

Metas gradients_of(const Metas& metas) {
  Metas gradients;
  for (const TensorMeta& each : metas) {
    if (each.requires_grad) {
      gradients.push_back(each);
    }
  }
  return gradients;
}

// For each tensor: type, requires_grad, number of dims, sizes. unpack() reads
// the same order.
std::vector<std::int64_t> pack(const Metas& metas) {
  std::vector<std::int64_t> numbers;
  for (const TensorMeta& each : metas) {
    numbers.push_back(static_cast<std::int64_t>(each.type));
    numbers.push_back(each.requires_grad ? 1 : 0);
    numbers.push_back(static_cast<std::int64_t>(each.sizes.size()));
    numbers.insert(numbers.end(), each.sizes.begin(), each.sizes.end());
  }
  return numbers;
}

Metas unpack(const std::vector<std::int64_t>& numbers) {
  Metas metas;
  for (auto next = numbers.begin(); next != numbers.end();) {
    TensorMeta meta;
    meta.type = static_cast<c10::ScalarType>(*next++);
    meta.requires_grad = *next++ != 0;
    const std::int64_t dims = *next++;
    meta.sizes.assign(next, next + dims);
    next += dims;
    metas.push_back(std::move(meta));
  }
  return metas;
}

// Goes from one pipeline stage to others (pipeline/transport.cpp), so it must
// not depend on the build as std::hash may.
std::int64_t fingerprint(const Metas& metas) {
  std::uint64_t hash = 14695981039346656037ULL; // FNV-1a
  for (const std::int64_t number : pack(metas)) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 1099511628211ULL;
  }
  return static_cast<std::int64_t>(hash);
}

} // namespace argosy::trace
