#pragma once

#include "argosy/comm/kernels/isa.h"
#include "argosy/optim/kernels/steps.h"
#include "argosy/optim/kernels/tile.h"

namespace argosy::optim {

// Works on a tile; adds what it sums up to `sums`, if it does.
template <typename Step>
using Kernel = void (*)(const Tile& tile, const Step& step, double* sums);

// One per format.
template <typename Step>
struct KernelRow {
  Kernel<Step> of[kNumFormats];

  Kernel<Step> operator[](Format format) const {
    return of[static_cast<int>(format)];
  }
};

// The code of one instruction set. All give the same bits.
struct KernelTable {
  // Update parameters and their states, in the order of the arguments of the
  // rules in simd_rules.h.
  KernelRow<SgdStep> sgd;      // no state
  KernelRow<SgdStep> momentum; // momentum buffer
  KernelRow<AdamStep> adam;    // averages of g and g^2
  KernelRow<AdamStep> amsgrad; // and the maximum of the latter
  KernelRow<AdagradStep> adagrad;
  KernelRow<LarsStep> lars;

  // LAMB: the first pass updates the averages and sums up the squares of
  // weights and of the direction, the second goes along it.
  KernelRow<LambStep> lamb_direction;
  KernelRow<LambStep> lamb_update;

  // Sums of squares of weights and gradients.
  KernelRow<NormStep> norms;

  // On `param` itself, whatever it is; masters are not looked at.
  KernelRow<NormStep> squares; // into sums[0]
  KernelRow<ScaleStep> scale;
  KernelRow<ClampStep> clamp;
  KernelRow<EmaStep> ema; // states[0] moves toward `param`
};

inline constexpr int kNumSums = 2;

extern const KernelTable kBaselineKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;

// Throws InvalidArgument when the machine does not have it.
const KernelTable& kernels_of(comm::Isa isa);

} // namespace argosy::optim
