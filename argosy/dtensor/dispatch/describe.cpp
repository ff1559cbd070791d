#include "argosy/dtensor/dispatch/describe.h"

#include <ATen/core/Formatting.h>
#include <ATen/core/Tensor.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/torch_hooks/print.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy {

namespace dtensor {
namespace {

// "DTensor of shape [4, 2], [S(0)] on ProcessMesh(...)"
std::string title(const Parts& parts, at::IntArrayRef sizes) {
  return str_format(
      "DTensor of shape {}, {} on {}",
      sizes,
      parts.placements,
      parts.mesh->mesh());
}

// "[0:2, 0:2]", where the part is in the whole.
std::string range_text(const Box& box) {
  std::vector<std::string> ranges;
  for (std::size_t dim = 0; dim < box.size.size(); ++dim) {
    ranges.push_back(
        str(box.offset[dim], ":", box.offset[dim] + box.size[dim]));
  }
  return str("[", join(ranges, ", "), "]");
}

std::string part_text(const Parts& parts, at::IntArrayRef sizes) {
  MeshState& mesh = *parts.mesh;
  const int rank = mesh.ranks().rank();
  if (!mesh.is_member()) {
    return str("rank ", rank, " is not in the mesh and holds nothing of it");
  }
  std::ostringstream out;
  out << "rank " << rank
      << (has_partial(parts.placements) ? " has a partial result of " : " has ")
      << range_text(mesh.local_box(sizes, parts.placements)) << ":\n"
      << parts.local;
  return out.str();
}

bool print_wrapper(std::ostream& out, const at::Tensor& tensor) {
  if (const Parts* parts = parts_of(tensor)) {
    out << title(*parts, tensor.sizes()) << "\n"
        << part_text(*parts, tensor.sizes());
    return true;
  }
  if (deferred_of(tensor) != nullptr) {
    out << "[ " << tensor.scalar_type() << " " << tensor.sizes()
        << ", made under DeferredInit, without values yet ]";
    return true;
  }
  return false;
}

std::string why_no_memory(const Parts& parts, at::IntArrayRef sizes) {
  return str_format(
      "[dtensor] a {} has no memory of its own, which data_ptr(), accessor(), "
      "storage() or torch::save() asked for. to_local() gives this rank's part "
      "and full_tensor() the whole as a plain tensor; save_model() writes a "
      "module",
      title(parts, sizes));
}

std::string why_not_yet(const DeferredParts&, at::IntArrayRef sizes) {
  return str_format(
      "[dtensor.deferred] a tensor of shape {} that was made under "
      "DeferredInit has no memory yet, which data_ptr(), accessor(), storage() "
      "or torch::save() asked for; shard it first, with parallelize(), "
      "shard_layer() or shard_tensor_()",
      sizes);
}

} // namespace

void install_descriptions() {
  torch_hooks::install_print(&print_wrapper);
  torch_hooks::explain_no_memory<Parts, &why_no_memory>();
  torch_hooks::explain_no_memory<DeferredParts, &why_not_yet>();
}

} // namespace dtensor

std::string describe(const at::Tensor& dtensor) {
  std::ostringstream out;
  dtensor::require_parts(dtensor, "describe");
  dtensor::print_wrapper(out, dtensor);
  return out.str();
}

} // namespace argosy
