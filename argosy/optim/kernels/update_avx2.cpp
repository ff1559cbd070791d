#include "argosy/comm/kernels/simd_avx2.h"

namespace argosy::optim {
namespace {

inline comm::Floats square_root(comm::Floats value) {
  return (comm::Floats)_mm256_sqrt_ps((__m256)value);
}

using DoubleLanes = comm::VectorOf<double, comm::kVectorBytes>::Type;

inline DoubleLanes square_root(DoubleLanes value) {
  return (DoubleLanes)_mm256_sqrt_pd((__m256d)value);
}

} // namespace
} // namespace argosy::optim

#include "argosy/optim/kernels/simd_loops.h"

namespace argosy::optim {

constinit const KernelTable kAvx2Kernels = make_table();

} // namespace argosy::optim
