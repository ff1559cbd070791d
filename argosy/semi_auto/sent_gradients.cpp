#include "argosy/semi_auto/sent_gradients.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

#include "argosy/comm/ops.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/value_checks.h"

namespace argosy::semi_auto {

namespace {

bool is_sent(const SentGradients& sent, std::size_t axis) {
  return std::ranges::count(sent.axes, static_cast<int>(axis)) > 0;
}

bool shortens(const SentGradients& sent, const at::Tensor& gradient) {
  return sent.type &&
      c10::elementSize(*sent.type) < c10::elementSize(gradient.scalar_type());
}

at::Tensor with_parts(
    const at::Tensor& dtensor,
    const at::Tensor& local,
    const Placements& placements) {
  const dtensor::TrustedValues equal;
  return from_local(
      local, process_mesh_of(dtensor), placements, dtensor.sizes().vec());
}

// Part by part: a cast of the whole would add the summands up first. An average
// of multiples uses the range of short types as DataParallel does.
at::Tensor shorter_parts(
    const at::Tensor& gradient, const SentGradients& sent) {
  const ProcessMesh mesh = process_mesh_of(gradient);
  Placements placements = placements_of(gradient);
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis] == Partial() && is_sent(sent, axis)) {
      placements[axis] = Partial(ReduceOp::AVG);
      count *= mesh.get_dim_size(static_cast<int>(axis));
    }
  }
  const at::Tensor parts = (to_local(gradient) * count).to(*sent.type);
  return with_parts(gradient, parts, placements);
}

} // namespace

at::Tensor reduced(
    const at::Tensor& gradient,
    const Placements& placements,
    const SentGradients& sent) {
  Placements first = placements_of(gradient);
  bool has_sent_sums = false;
  for (std::size_t axis = 0; axis < first.size(); ++axis) {
    if (first[axis] == Partial() && is_sent(sent, axis)) {
      has_sent_sums = true;
    } else {
      first[axis] = placements[axis];
    }
  }
  if (!has_sent_sums || !shortens(sent, gradient)) {
    return reshard(gradient, placements);
  }
  const at::Tensor sum =
      reshard(shorter_parts(reshard(gradient, first), sent), placements);
  return with_parts(
      gradient, to_local(sum).to(gradient.scalar_type()), placements);
}

} // namespace argosy::semi_auto
