#include "argosy/comm/kernels/simd_avx512.h"

namespace argosy::optim {
namespace {

// With a mask of all lanes: see simd_avx512.h.
inline comm::Floats square_root(comm::Floats value) {
  return (comm::Floats)_mm512_maskz_sqrt_ps(0xffff, (__m512)value);
}

using DoubleLanes = comm::VectorOf<double, comm::kVectorBytes>::Type;

inline DoubleLanes square_root(DoubleLanes value) {
  return (DoubleLanes)_mm512_maskz_sqrt_pd(0xff, (__m512d)value);
}

} // namespace
} // namespace argosy::optim

#include "argosy/optim/kernels/simd_loops.h"

namespace argosy::optim {

constinit const KernelTable kAvx512Kernels = make_table();

} // namespace argosy::optim
