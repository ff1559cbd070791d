#include "argosy/dtensor/local_map.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/torch_hooks/graph_node.h"

namespace argosy {

namespace {

using Places = std::vector<std::optional<Placements>>;

ProcessMesh mesh_of_inputs(
    const std::vector<at::Tensor>& inputs, const LocalMapOptions& options) {
  std::optional<ProcessMesh> mesh = options.mesh;
  for (const at::Tensor& input : inputs) {
    if (!is_dtensor(input)) {
      continue;
    }
    ARGOSY_CHECK(
        !mesh || *mesh == process_mesh_of(input),
        "[dtensor.local_map] an input is on {}, expected {}; bring it there "
        "with reshard()",
        process_mesh_of(input),
        *mesh);
    mesh = process_mesh_of(input);
  }
  return mesh ? *mesh : require_mesh("dtensor.local_map");
}

void check_count(
    std::size_t found, std::size_t expected, const char* what, bool may_be_0) {
  ARGOSY_CHECK(
      found == expected || (may_be_0 && found == 0),
      "[dtensor.local_map] {} {}, expected {}",
      found,
      what,
      expected);
}

// The input where the function wants it.
at::Tensor placed_input(
    const at::Tensor& input,
    const std::optional<Placements>& wanted,
    std::size_t index,
    bool may_move) {
  ARGOSY_CHECK(
      is_dtensor(input) == wanted.has_value(),
      "[dtensor.local_map] input {} is a {}, and in_placements expect a {}",
      index,
      is_dtensor(input) ? "DTensor" : "plain tensor",
      wanted ? "DTensor" : "plain tensor");
  if (!wanted) {
    return input;
  }
  const Placements there = normalized(
      *wanted, static_cast<int>(input.dim()), process_mesh_of(input).ndim());
  ARGOSY_CHECK(
      may_move || placements_of(input) == there,
      "[dtensor.local_map] input {} is {}, expected {}; reshard() it, or set "
      "redistribute_inputs",
      index,
      placements_of(input),
      there);
  return reshard(input, there);
}

// What the results are on one axis.
struct Results {
  bool have_parts = false;  // Shard or Partial
  bool have_wholes = false; // Replicate
};

Results results_on(const Places& out, std::size_t axis) {
  Results results;
  for (const auto& placements : out) {
    if (placements) {
      const bool is_whole = (*placements)[axis].is_replicated();
      (is_whole ? results.have_wholes : results.have_parts) = true;
    }
  }
  return results;
}

// Where a rank's own results are parts of the whole, its own gradient of what
// it shares with others is a part of a sum.
Placements gradients_of_input(
    const Placements& input, const Places& out, std::size_t index) {
  Placements gradients = gradient_placements(input);
  for (std::size_t axis = 0; axis < gradients.size(); ++axis) {
    const Results results = results_on(out, axis);
    if (!gradients[axis].is_replicated() || !results.have_parts) {
      continue;
    }
    ARGOSY_CHECK(
        !results.have_wholes,
        "[dtensor.local_map] input {} is replicated on axis {}, on which some "
        "results are parts and others are whole: say in in_grad_placements "
        "what its gradient is",
        index,
        axis);
    gradients[axis] = Partial();
  }
  return gradients;
}

// As to_local(), but what backward brings has these placements.
at::Tensor local_with_gradients(
    const at::Tensor& input, const Placements& gradients) {
  const dtensor::Parts& parts = dtensor::require_parts(input, "local_map");
  const auto mesh = parts.mesh;
  const dtensor::Shape global = input.sizes().vec();
  return torch_hooks::apply(
      input,
      [&](const at::Tensor&) { return parts.local.detach(); },
      [mesh, gradients, global](const at::Tensor& grad) {
        return dtensor::wrap_local(grad, mesh, gradients, global);
      });
}

at::Tensor local_input(
    const at::Tensor& placed,
    const LocalMapOptions& options,
    std::size_t index) {
  if (!is_dtensor(placed)) {
    return placed;
  }
  if (!placed.requires_grad()) {
    return to_local(placed);
  }
  const bool is_given = !options.in_grad_placements.empty() &&
      options.in_grad_placements[index].has_value();
  return local_with_gradients(
      placed,
      is_given ? normalized(
                     *options.in_grad_placements[index],
                     static_cast<int>(placed.dim()),
                     process_mesh_of(placed).ndim())
               : gradients_of_input(
                     placements_of(placed), options.out_placements, index));
}

} // namespace

std::vector<at::Tensor> local_map(
    const std::function<std::vector<at::Tensor>(
        const std::vector<at::Tensor>& locals)>& function,
    const std::vector<at::Tensor>& inputs,
    const LocalMapOptions& options) {
  const ProcessMesh mesh = mesh_of_inputs(inputs, options);
  const auto ranks = rank_mesh(mesh);
  ARGOSY_CHECK(
      ranks->is_member(),
      "[dtensor.local_map] rank {} is not in {}, whose ranks alone have parts",
      ranks->rank(),
      mesh);
  const auto count = inputs.size();
  check_count(options.in_placements.size(), count, "in_placements", true);
  check_count(
      options.in_grad_placements.size(), count, "in_grad_placements", true);
  std::vector<at::Tensor> locals;
  for (std::size_t i = 0; i < count; ++i) {
    const at::Tensor placed = options.in_placements.empty()
        ? inputs[i]
        : placed_input(
              inputs[i],
              options.in_placements[i],
              i,
              options.redistribute_inputs);
    locals.push_back(local_input(placed, options, i));
  }
  std::vector<at::Tensor> results = function(locals);
  const auto& out = options.out_placements;
  check_count(results.size(), out.size(), "results", false);
  check_count(options.out_shapes.size(), out.size(), "out_shapes", true);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i]) {
      results[i] = from_local(
          results[i],
          mesh,
          *out[i],
          options.out_shapes.empty() ? std::vector<std::int64_t>()
                                     : options.out_shapes[i]);
    }
  }
  return results;
}

at::Tensor local_map(
    const std::function<at::Tensor(const std::vector<at::Tensor>& locals)>&
        function,
    const std::vector<at::Tensor>& inputs,
    const LocalMapOptions& options) {
  return local_map(
             [&](const std::vector<at::Tensor>& locals) {
               return std::vector<at::Tensor>{function(locals)};
             },
             inputs,
             options)
      .front();
}

} // namespace argosy
