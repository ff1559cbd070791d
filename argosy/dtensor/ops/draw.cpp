#include "argosy/dtensor/ops/draw.h"

#include <ATen/ops/empty.h>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

void check_generator(LocalCall& call) {
  ARGOSY_CHECK(
      call.argument("generator").isNone(),
      "[dtensor.random] a generator is given; DTensors draw from the numbers "
      "that dtensor_manual_seed() starts");
}

void draw(
    LocalCall& call,
    const at::Tensor& local,
    at::IntArrayRef global,
    const Placements& placements,
    const Distribution& distribution) {
  fill_random(
      local,
      global.vec(),
      call.mesh().local_box(global, placements),
      call.mesh().random().draw(),
      distribution);
}

// Numbers for the part of an output.
at::Tensor drawn(
    LocalCall& call,
    const Distribution& distribution,
    const at::TensorOptions& options) {
  const Decision::Output& output = call.decision().outputs[0];
  const Expected& expected = output.tensors.at(0);
  at::Tensor local = at::empty(expected.local, options);
  draw(call, local, expected.shape, output.placements, distribution);
  return local;
}

} // namespace argosy::dtensor
