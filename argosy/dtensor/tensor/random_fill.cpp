#include "argosy/dtensor/tensor/random_fill.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "argosy/dtensor/tensor/philox.h"

namespace argosy::dtensor {

namespace {

using Bits = std::array<std::uint32_t, 4>;

// In [0, 1), with 53 bits.
double fraction(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = std::uint64_t{high} << 32 | low;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// Philox is counter-based: the bits of an element depend on the draw and on its
// place in the whole tensor only. So each rank fills its part alone, and the
// values are the same however the tensor is cut.
Bits bits_of(RandomState::Draw draw, std::int64_t index) {
  const auto place = static_cast<std::uint64_t>(index);
  return philox(
      {static_cast<std::uint32_t>(place),
       static_cast<std::uint32_t>(place >> 32),
       static_cast<std::uint32_t>(draw.stream),
       static_cast<std::uint32_t>(draw.stream >> 32)},
      {static_cast<std::uint32_t>(draw.seed),
       static_cast<std::uint32_t>(draw.seed >> 32)});
}

// The place in the whole of each row of a part, one after the other.
class Rows {
 public:
  Rows(const Shape& global, const Box& box)
      : global_(global), box_(box), at_(box.size.size(), 0) {}

  std::int64_t length() const {
    return box_.size.empty() ? 1 : box_.size.back();
  }
  std::int64_t count() const {
    return length() == 0 ? 0 : box_.numel() / length();
  }

  std::int64_t next() {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < at_.size(); ++d) {
      index = index * global_[d] + box_.offset[d] + at_[d];
    }
    // Counts up all dims but the last, which is the row itself.
    for (std::size_t d = at_.size(); d-- > 1;) {
      if (++at_[d - 1] < box_.size[d - 1]) {
        break;
      }
      at_[d - 1] = 0;
    }
    return index;
  }

 private:
  const Shape& global_;
  const Box& box_;
  Shape at_; // within the box; the last dim stays 0
};

} // namespace

Distribution uniform(double from, double to) {
  return [=](const Bits& bits) {
    // As many bits as a float has, so that it is never rounded up to `to`.
    return from + (to - from) * static_cast<double>(bits[0] >> 8) * 0x1.0p-24;
  };
}

// Box-Muller. Takes 1 - fraction, which is never 0, so that the logarithm is
// finite. Each element uses its own four words and only the cosine, as a
// neighbour may be on another rank.
Distribution normal(double mean, double deviation) {
  return [=](const Bits& bits) {
    const double radius =
        std::sqrt(-2.0 * std::log(1.0 - fraction(bits[0], bits[1])));
    const double angle = 2.0 * std::numbers::pi * fraction(bits[2], bits[3]);
    return mean + deviation * radius * std::cos(angle);
  };
}

Distribution log_normal(double mean, double deviation) {
  return [of_logarithm = normal(mean, deviation)](const Bits& bits) {
    return std::exp(of_logarithm(bits));
  };
}

Distribution exponential(double rate) {
  return [=](const Bits& bits) {
    // Above 0, as a divisor may need it. log1p() keeps what 1 - 2^-54 would
    // lose to rounding.
    const double place = std::max(fraction(bits[0], bits[1]), 0x1.0p-54);
    return -std::log1p(-place) / rate;
  };
}

Distribution cauchy(double median, double scale) {
  return [=](const Bits& bits) {
    const double angle = fraction(bits[0], bits[1]) - 0.5;
    return median + scale * std::tan(std::numbers::pi * angle);
  };
}

// By inversion of the distribution function; counts trials from 1.
Distribution geometric(double probability) {
  return [=](const Bits& bits) {
    const double left = 1.0 - fraction(bits[0], bits[1]);
    return std::max(1.0, std::ceil(std::log(left) / std::log1p(-probability)));
  };
}

Distribution bernoulli(double probability) {
  return [=](const Bits& bits) {
    return fraction(bits[0], bits[1]) < probability ? 1.0 : 0.0;
  };
}

Distribution integers(std::int64_t from, std::int64_t to) {
  return [=](const Bits& bits) {
    const auto range = static_cast<double>(to - from);
    return static_cast<double>(from) +
        std::floor(fraction(bits[0], bits[1]) * range);
  };
}

void fill_random(
    const at::Tensor& local,
    const Shape& global,
    const Box& box,
    RandomState::Draw draw,
    const Distribution& distribution) {
  const at::Tensor values =
      at::empty(local.sizes(), at::TensorOptions(at::kDouble));
  double* out = values.data_ptr<double>();
  Rows rows(global, box);
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    const std::int64_t first = rows.next();
    for (std::int64_t i = 0; i < rows.length(); ++i) {
      *out++ = distribution(bits_of(draw, first + i));
    }
  }
  local.copy_(values);
}

} // namespace argosy::dtensor
