#include "argosy/optim/kernels/kernels.h"

#include "argosy/common/error.h"

namespace argosy::optim {

namespace {

template <typename Pointer>
Pointer moved(Pointer pointer, std::size_t bytes) {
  using Byte = std::conditional_t<
      std::is_const_v<std::remove_pointer_t<Pointer>>,
      const char*,
      char*>;
  return pointer == nullptr ? nullptr : static_cast<Byte>(pointer) + bytes;
}

} // namespace

Tile part_of(
    const Tile& tile, Format format, std::size_t begin, std::size_t count) {
  const std::size_t param = begin * param_bytes(format);
  const std::size_t grad = begin * grad_bytes(format);
  const std::size_t state = begin * state_bytes(format);
  Tile part = tile;
  part.param = moved(tile.param, param);
  part.grad = moved(tile.grad, grad);
  part.master = moved(tile.master, state);
  for (int i = 0; i < kMaxStates; ++i) {
    part.states[i] = moved(tile.states[i], state);
  }
  part.count = count;
  return part;
}

const KernelTable& kernels_of(simd::Isa isa) {
  ARGOSY_CHECK(
      isa <= simd::highest_isa(),
      "[optim.kernels] this machine has no ",
      to_string(isa));
  switch (isa) {
    case simd::Isa::Baseline:
      return kBaselineKernels;
    case simd::Isa::Avx2:
      return kAvx2Kernels;
    case simd::Isa::Avx512:
      return kAvx512Kernels;
  }
  return kBaselineKernels;
}

} // namespace argosy::optim
