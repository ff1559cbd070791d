#include "argosy/dtensor/dispatch/plain_inputs.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/dtensor/dispatch/frame.h"

namespace argosy::dtensor {

namespace {

bool is_plain(const Frame::Input& input) {
  return input.parts == nullptr &&
      !input.tensor->unsafeGetTensorImpl()->is_wrapped_number();
}

} // namespace

bool has_plain_inputs(const Frame& frame) {
  return std::ranges::any_of(frame.inputs(), is_plain);
}

void compare_plain_inputs(const Frame& frame, const Decision& decision) {
  ValueChecks& checks = frame.mesh().checks();
  std::atomic<int>& done = *decision.compared;
  if (done.load(std::memory_order_relaxed) >= checks.times() ||
      TrustedValues::is_active()) {
    return;
  }
  ++done;
  NamedTensors plain;
  for (const Frame::Input& input : frame.inputs()) {
    if (is_plain(input)) {
      plain.emplace_back(
          str("argument ", frame.info().args[input.arg].name), *input.tensor);
    }
  }
  check_equal_on(
      frame.mesh(),
      plain,
      str_format(
          "[dtensor.{}] a plain tensor beside a DTensor counts as replicated, "
          "so it must be the same on all ranks of the mesh. When each rank has "
          "its own part of a batch, make one DTensor of the parts with "
          "shard_dataloader(loader, mesh, axis, true) or from_local(); when "
          "all should have the same, broadcast() it first:",
          frame.info().name));
}

} // namespace argosy::dtensor
