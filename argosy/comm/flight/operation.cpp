#include "argosy/comm/flight/operation.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::comm::flight {

namespace {

bool has_root(OpKind kind) {
  return kind == OpKind::Reduce || kind == OpKind::Broadcast ||
      kind == OpKind::Gather || kind == OpKind::Scatter;
}

// Elements that all members must have alike; -1 where they need not.
std::int64_t common_elements(const Call& call) {
  switch (call.kind) {
    case OpKind::Barrier:
    case OpKind::AllToAll:
      return -1;
    case OpKind::ReduceScatter:
    case OpKind::Scatter:
      return call.out.elements;
    default:
      return call.in.elements;
  }
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
    return text;
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
  return text;
}

bool agree(const Call& a, const Call& b) {
  const bool messages = is_pairwise(a.kind) && is_pairwise(b.kind);
  if (!messages && a.kind != b.kind) {
    return false;
  }
  if (a.kind == OpKind::Barrier) {
    return true;
  }
  return a.dtype == b.dtype && common_elements(a) == common_elements(b) &&
      (!reduces(a.kind) || a.reduce == b.reduce) &&
      (!has_root(a.kind) || a.root == b.root);
}

std::string to_string(State state) {
  switch (state) {
    case State::Issued:
      return "issued";
    case State::Started:
      return "started";
    case State::Completed:
      return "completed";
    case State::Failed:
      return "failed";
  }
  return "";
}

} // namespace argosy::comm::flight
