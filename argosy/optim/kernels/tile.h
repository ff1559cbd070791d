#pragma once

#include <cstddef>
#include <cstdint>

namespace argosy::optim {

// The types of a parameter and its gradient. Kernels compute 16-bit parameters
// in float and keep a float master weight. With MainGrad their gradients are
// float as well.
enum class Format : std::uint8_t {
  Float32,
  Float64,
  Float16,
  BFloat16,
  Float16MainGrad,
  BFloat16MainGrad
};

inline constexpr int kNumFormats = 6;
inline constexpr int kMaxStates = 3;

// The bytes of an element of the parameter, of its gradient (grad_bytes), and
// of its states and master (state_bytes).
constexpr std::size_t param_bytes(Format format) {
  switch (format) {
    case Format::Float32:
      return 4;
    case Format::Float64:
      return 8;
    case Format::Float16:
    case Format::BFloat16:
    case Format::Float16MainGrad:
    case Format::BFloat16MainGrad:
      return 2;
  }
  return 0;
}

constexpr bool has_main_grad(Format format) {
  return format == Format::Float16MainGrad ||
      format == Format::BFloat16MainGrad;
}

constexpr std::size_t grad_bytes(Format format) {
  return has_main_grad(format) ? 4 : param_bytes(format);
}

constexpr std::size_t state_bytes(Format format) {
  return format == Format::Float64 ? 8 : 4;
}

constexpr bool has_master(Format format) {
  return param_bytes(format) == 2;
}

// The format of the same parameter with float gradients.
constexpr Format with_main_grad(Format format) {
  switch (format) {
    case Format::Float16:
      return Format::Float16MainGrad;
    case Format::BFloat16:
      return Format::BFloat16MainGrad;
    default:
      return format;
  }
}

// The memory of one parameter or a part of it. Pointers that a kernel does not
// use may be null.
struct Tile {
  void* param = nullptr;
  const void* grad = nullptr;
  void* master = nullptr;
  void* states[kMaxStates] = {};
  std::size_t count = 0;
};

// The part of a tile from element `begin` on.
Tile part_of(
    const Tile& tile, Format format, std::size_t begin, std::size_t count);

} // namespace argosy::optim
