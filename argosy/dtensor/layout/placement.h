#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "argosy/comm/kernels/reduce_op.h"

namespace argosy {

// What one mesh axis does with a tensor. One byte; 0 is Replicate.
class Placement {
 public:
  constexpr Placement() = default;

  constexpr bool is_replicated() const { return code_ == 0; }
  constexpr bool is_shard() const { return (code_ & kShard) != 0; }
  constexpr bool is_shard(int dim) const {
    return is_shard() && this->dim() == dim;
  }
  constexpr bool is_partial() const { return (code_ & kPartial) != 0; }

  // Of a Shard: the tensor dim that is cut; negative ones count from the last.
  constexpr int dim() const {
    const int low = code_ & 0x3f;
    return low < 32 ? low : low - 64;
  }
  // Of a Partial: how the parts become the value.
  constexpr comm::ReduceOp op() const {
    return static_cast<comm::ReduceOp>(code_ & 0x3f);
  }

  constexpr std::uint8_t code() const { return code_; }
  constexpr bool operator==(const Placement&) const = default;

 protected:
  static constexpr std::uint8_t kShard = 0x40;
  static constexpr std::uint8_t kPartial = 0x80;

  explicit constexpr Placement(int code)
      : code_(static_cast<std::uint8_t>(code)) {}

 private:
  std::uint8_t code_ = 0;
};

// All ranks of the axis hold the same.
class Replicate : public Placement {};

// The tensor dim is cut into as many chunks as the axis is long: ceil(n / k)
// elements each until none are left, so that the last ones may be shorter or
// empty.
class Shard : public Placement {
 public:
  // Throws InvalidArgument for dims outside of -32 to 31.
  explicit Shard(int dim);
};

// Every rank holds a part of the same shape; the value is their reduction.
class Partial : public Placement {
 public:
  explicit constexpr Partial(comm::ReduceOp op = comm::ReduceOp::SUM)
      : Placement(kPartial | static_cast<int>(op)) {}
};

// One placement for each mesh axis. When several axes cut the same tensor dim,
// the first of them makes the chunks, and the next cuts each chunk again.
class Placements {
 public:
  static constexpr std::size_t kMost = 8;

  Placements() = default;
  Placements(std::initializer_list<Placement> items);
  explicit Placements(const std::vector<Placement>& items);
  // `count` times the same.
  Placements(std::size_t count, Placement each);

  std::size_t size() const { return size_; }
  Placement& operator[](std::size_t axis) { return items_[axis]; }
  Placement operator[](std::size_t axis) const { return items_[axis]; }
  const Placement* begin() const { return items_.data(); }
  const Placement* end() const { return items_.data() + size_; }

  // All that distinguishes them, in one word; the number of axes apart.
  std::uint64_t code() const { return std::bit_cast<std::uint64_t>(items_); }

  bool operator==(const Placements&) const = default;

 private:
  std::array<Placement, kMost> items_{};
  std::uint8_t size_ = 0;
};

bool is_replicated(const Placements& placements);
bool has_partial(const Placements& placements);

// The same with dims counted from the first. Throws InvalidArgument for dims
// that a tensor of `ndim` dims does not have, and unless there is a placement
// for each of `num_axes` mesh axes.
Placements normalized(const Placements& placements, int ndim, int num_axes);

// What the gradient of a tensor so placed has: Partial becomes Replicate, as
// each part contributes to the whole.
Placements gradient_placements(Placements placements);

// "S(0)", "R", "P(sum)"; "[S(0), R]".
std::string to_string(Placement placement);
std::string to_string(const Placements& placements);
std::ostream& operator<<(std::ostream& out, Placement placement);
std::ostream& operator<<(std::ostream& out, const Placements& placements);

} // namespace argosy
