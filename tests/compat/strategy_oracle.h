#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "argosy/compat/rank_file.h"
#include "argosy/compat/strategy_file.h"

// Random strategies, and what each rank holds by them, element by element in
// plain loops: what plans on blocks are compared with.
namespace argosy::testing {

using dtensor::Shape;

// Whether a device holds an element, by the definition of a layout.
class ElementOracle {
 public:
  explicit ElementOracle(const ParallelLayout& layout) : layout_(layout) {
    devices_ = 1;
    for (const auto size : layout.dev_matrix) {
      devices_ *= static_cast<int>(size);
    }
  }

  // The row-major indices of the elements of a device, ascending.
  std::vector<std::int64_t> elements(const Shape& shape, int device) const {
    std::vector<std::int64_t> held;
    std::int64_t count = 1;
    for (const auto size : shape) {
      count *= size;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (holds(shape, device, i)) {
        held.push_back(i);
      }
    }
    return held;
  }

  int devices() const { return devices_; }

 private:
  // Of an axis that is counted from the right.
  std::int64_t coordinate(int device, int axis) const {
    std::int64_t index = device;
    for (std::size_t i = 0; i < layout_.rank_list.size(); ++i) {
      if (layout_.rank_list[i] == device) {
        index = static_cast<std::int64_t>(i);
        break;
      }
    }
    const auto n = static_cast<int>(layout_.dev_matrix.size());
    for (int a = 0; a < axis; ++a) {
      index /= layout_.dev_matrix[static_cast<std::size_t>(n - 1 - a)];
    }
    return index % layout_.dev_matrix[static_cast<std::size_t>(n - 1 - axis)];
  }

  bool same_slice(int a, int b) const {
    for (const auto& axes : layout_.tensor_map) {
      for (const int axis : axes) {
        if (coordinate(a, axis) != coordinate(b, axis)) {
          return false;
        }
      }
    }
    return true;
  }

  // Cuts [begin, end) into `k` and keeps part `i`.
  static void keep(
      std::int64_t& begin, std::int64_t& end, std::int64_t k, std::int64_t i) {
    const std::int64_t each = (end - begin + k - 1) / k;
    const std::int64_t last = end;
    begin = std::min(begin + i * each, last);
    end = std::min(begin + each, last);
  }

  bool holds(const Shape& shape, int device, std::int64_t element) const {
    for (std::size_t d = shape.size(); d-- > 0;) {
      const std::int64_t index = element % shape[d];
      element /= shape[d];
      std::int64_t begin = 0;
      std::int64_t end = shape[d];
      for (const int axis : layout_.tensor_map[d]) {
        const auto at =
            layout_.dev_matrix.size() - 1 - static_cast<std::size_t>(axis);
        if (d == 0 && !layout_.param_split_shape.empty()) {
          const auto slice = static_cast<std::size_t>(coordinate(device, axis));
          for (std::size_t s = 0; s < slice; ++s) {
            begin += layout_.param_split_shape[s];
          }
          end = begin + layout_.param_split_shape[slice];
        } else {
          keep(begin, end, layout_.dev_matrix[at], coordinate(device, axis));
        }
      }
      if (d == 0 && layout_.opt_weight_shard_size != 0) {
        std::vector<int> replicas;
        for (int other = 0; other < devices_; ++other) {
          if (same_slice(device, other)) {
            replicas.push_back(other);
          }
        }
        const auto n = static_cast<std::int64_t>(replicas.size());
        const std::int64_t size = layout_.opt_weight_shard_size;
        const std::int64_t k = size < 0 || size > n ? n : size;
        const auto at = std::ranges::find(replicas, device) - replicas.begin();
        keep(begin, end, k, at % k);
      }
      if (index < begin || index >= end) {
        return false;
      }
    }
    return true;
  }

  ParallelLayout layout_;
  int devices_ = 1;
};

// The value of an element of a parameter, of 4 bytes.
inline std::uint32_t value_of(const std::string& name, std::int64_t element) {
  return static_cast<std::uint32_t>(std::hash<std::string>()(name)) * 7919u +
      static_cast<std::uint32_t>(element);
}

inline std::vector<std::uint32_t> values_of(
    const std::string& name, const std::vector<std::int64_t>& elements) {
  std::vector<std::uint32_t> values;
  values.reserve(elements.size());
  for (const auto element : elements) {
    values.push_back(value_of(name, element));
  }
  return values;
}

inline std::vector<std::uint32_t> words_of(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> words(bytes.size() / 4);
  if (!bytes.empty()) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  }
  return words;
}

// The block that the elements of a device make up.
inline Shape shape_of_elements(
    const Shape& shape, const std::vector<std::int64_t>& elements) {
  std::vector<std::set<std::int64_t>> indices(shape.size());
  for (std::int64_t element : elements) {
    for (std::size_t d = shape.size(); d-- > 0;) {
      indices[d].insert(element % shape[d]);
      element /= shape[d];
    }
  }
  Shape sizes;
  for (const auto& of_dim : indices) {
    sizes.push_back(static_cast<std::int64_t>(of_dim.size()));
  }
  return sizes;
}

class RandomStrategies {
 public:
  explicit RandomStrategies(unsigned seed) : random_(seed) {}

  int number(int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random_);
  }

  // A random factorisation of a number of devices.
  Shape matrix(int devices) {
    Shape sizes;
    while (devices > 1) {
      int factor = 2;
      while (devices % factor != 0 ||
             (factor != devices && number(0, 2) == 0)) {
        factor = factor == devices ? 2 : factor + 1;
      }
      sizes.push_back(factor);
      devices /= factor;
    }
    if (number(0, 3) == 0 || sizes.empty()) {
      sizes.insert(
          sizes.begin() + number(0, static_cast<int>(sizes.size())), 1);
    }
    std::ranges::shuffle(sizes, random_);
    return sizes;
  }

  ParallelLayout layout(int devices, const Shape& shape) {
    ParallelLayout layout;
    layout.dev_matrix = matrix(devices);
    layout.tensor_map.resize(shape.size());
    layout.tensor_shape = shape;
    for (std::size_t axis = 0; axis < layout.dev_matrix.size(); ++axis) {
      const int dim = number(-1, static_cast<int>(shape.size()) - 1);
      if (dim >= 0) {
        layout.tensor_map[static_cast<std::size_t>(dim)].push_back(
            static_cast<int>(axis));
      }
    }
    for (auto& axes : layout.tensor_map) {
      std::ranges::shuffle(axes, random_);
    }
    if (number(0, 3) == 0) {
      for (int i = 0; i < devices; ++i) {
        layout.rank_list.push_back(i);
      }
      std::ranges::shuffle(layout.rank_list, random_);
    }
    if (!shape.empty() && number(0, 1) == 0) {
      layout = with_optimizer_shards(layout, divisor(layout));
    }
    return layout;
  }

  Shape shape() {
    Shape shape;
    for (int dims = number(0, 3); dims > 0; --dims) {
      shape.push_back(number(1, 9));
    }
    return shape;
  }

 private:
  // -1, or a number that divides that of the replicas.
  std::int64_t divisor(const ParallelLayout& layout) {
    const auto replicas =
        static_cast<int>(compat::replicas_of(layout, 0).size());
    int size = number(1, replicas);
    while (replicas % size != 0) {
      --size;
    }
    return number(0, 1) == 0 ? -1 : size;
  }

  std::mt19937 random_;
};

// Saves what a rank holds by the oracle; values of 4 bytes.
inline void save_by_oracle(
    const std::filesystem::path& file,
    const std::map<std::string, ParallelLayout>& layouts,
    int device,
    const std::set<std::string>* only = nullptr) {
  std::vector<compat::TensorSource> tensors;
  for (const auto& [name, layout] : layouts) {
    if (only != nullptr && !only->contains(name)) {
      continue;
    }
    const auto elements =
        ElementOracle(layout).elements(*layout.tensor_shape, device);
    const auto values = values_of(name, elements);
    const auto box = compat::box_of(layout, *layout.tensor_shape, device).size;
    compat::TensorSource source;
    source.info = {
        name,
        checkpoint::DType::kI32,
        elements.empty() ? box
                         : shape_of_elements(*layout.tensor_shape, elements)};
    source.fill = [values](std::span<std::byte> bytes) {
      if (!values.empty()) {
        std::memcpy(bytes.data(), values.data(), bytes.size());
      }
    };
    tensors.push_back(std::move(source));
  }
  compat::write_rank_file(file, std::move(tensors));
}

} // namespace argosy::testing
