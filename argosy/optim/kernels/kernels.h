#pragma once

#include "argosy/optim/kernels/steps.h"
#include "argosy/optim/kernels/tile.h"
#include "argosy/simd/isa.h"

namespace argosy::optim {

// Processes a tile. Kernels that compute sums add them to `sums`.
template <typename Step>
using Kernel = void (*)(const Tile& tile, const Step& step, double* sums);

// A kernel for each format.
template <typename Step>
struct KernelRow {
  Kernel<Step> of[kNumFormats];

  Kernel<Step> operator[](Format format) const {
    return of[static_cast<int>(format)];
  }
};

// The kernels of one instruction set. All sets give the same bits.
struct KernelTable {
  // Update parameters and their states, in the order of the arguments of the
  // rules in simd_rules.h.
  KernelRow<SgdStep> sgd;      // no state
  KernelRow<SgdStep> momentum; // momentum buffer
  KernelRow<AdamStep> adam;    // averages of g and g^2
  KernelRow<AdamStep> amsgrad; // and the maximum of the latter
  KernelRow<AdagradStep> adagrad;
  KernelRow<LarsStep> lars;

  // LAMB: the first pass updates the averages and sums the squares of the
  // weights and of the direction; the second updates the weights.
  KernelRow<LambStep> lamb_direction;
  KernelRow<LambStep> lamb_update;

  // Sums of squares of weights and gradients.
  KernelRow<NormStep> norms;

  // These process `param` and ignore masters.
  KernelRow<NormStep> squares; // into sums[0]
  KernelRow<ScaleStep> scale;
  KernelRow<ClampStep> clamp;
  KernelRow<EmaStep> ema; // states[0] moves toward `param`
};

inline constexpr int kNumSums = 2;

extern const KernelTable kBaselineKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

// Throws InvalidArgument if the machine does not have the instruction set.
const KernelTable& kernels_of(simd::Isa isa);

} // namespace argosy::optim
