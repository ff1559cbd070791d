#include "argosy/comm/operation/call.h"

#include <algorithm>
#include <vector>

#include "argosy/comm/operation/op_record.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::comm {

namespace {

bool has_root(OpKind kind) {
  return kind == OpKind::Reduce || kind == OpKind::Broadcast ||
      kind == OpKind::Gather || kind == OpKind::Scatter;
}

// Elements that all members must have alike; 0 where they need not.
std::uint64_t common_elements(const Call& call) {
  switch (call.kind) {
    case OpKind::Barrier:
    case OpKind::AllToAll:
      return 0;
    case OpKind::ReduceScatter:
    case OpKind::Scatter:
      return static_cast<std::uint64_t>(call.out.elements);
    default:
      return static_cast<std::uint64_t>(call.in.elements);
  }
}

// What the members of the group, or the two ends of a message, have in common.
OpRecord common_record(const Call& call) {
  OpRecord record{
      .kind = is_pairwise(call.kind) ? OpKind::Send : call.kind,
      .count = common_elements(call)};
  if (call.kind != OpKind::Barrier) {
    record.dtype = call.dtype;
  }
  if (reduces(call.kind)) {
    record.reduce = call.reduce;
  }
  if (has_root(call.kind)) {
    record.root = call.root;
  }
  return record;
}

} // namespace

std::span<const std::int64_t> Side::kept_dims() const {
  return {dims.data(), std::min<std::size_t>(num_dims, kMostDims)};
}

std::string to_string(const Side& side) {
  if (side.num_tensors == 0) {
    return "nothing";
  }
  std::vector<std::string> dims;
  for (const std::int64_t dim : side.kept_dims()) {
    dims.push_back(std::to_string(dim));
  }
  if (side.num_dims > Side::kMostDims) {
    dims.emplace_back("...");
  }
  const std::string shape = str("[", join(dims, ", "), "]");
  return side.num_tensors == 1 ? shape : str(side.num_tensors, " x ", shape);
}

std::string to_string(const Call& call) {
  std::string text = to_string(call.kind);
  if (call.kind == OpKind::Barrier) {
    return text + for_text(call.label);
  }
  const bool both = call.in.num_tensors > 0 && call.out.num_tensors > 0;
  text +=
      str(" of ",
          to_string(call.dtype),
          " ",
          to_string(call.in.num_tensors > 0 ? call.in : call.out),
          both ? " to " + to_string(call.out) : "");
  if (reduces(call.kind)) {
    text += str(", ", to_string(call.reduce));
  }
  if (call.root >= 0) {
    const char* role = "root ";
    if (is_pairwise(call.kind)) {
      role = call.kind == OpKind::Send ? "to rank " : "from rank ";
    }
    text += str(", ", role, call.root);
  }
  return text + for_text(call.label);
}

bool agree(const Call& a, const Call& b) {
  return common_record(a) == common_record(b);
}

} // namespace argosy::comm
