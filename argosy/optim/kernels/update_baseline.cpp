#include "argosy/comm/kernels/simd_baseline.h"

namespace argosy::optim {
namespace {

inline comm::Floats square_root(comm::Floats value) {
  return (comm::Floats)_mm_sqrt_ps((__m128)value);
}

using DoubleLanes = comm::VectorOf<double, comm::kVectorBytes>::Type;

inline DoubleLanes square_root(DoubleLanes value) {
  return (DoubleLanes)_mm_sqrt_pd((__m128d)value);
}

} // namespace
} // namespace argosy::optim

#include "argosy/optim/kernels/simd_loops.h"

namespace argosy::optim {

constinit const KernelTable kBaselineKernels = make_table();

} // namespace argosy::optim
