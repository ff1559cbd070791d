#include "argosy/observe/flight_operations.h"

#include <algorithm>
#include <utility>

#include "argosy/comm/flight/record.h"

namespace argosy::observe {

namespace {

bool has_ended(const comm::flight::Operation& operation) {
  return operation.state >= comm::flight::State::Completed;
}

} // namespace

TraceOperation trace_operation(
    const comm::flight::Operation& operation, int rank) {
  const comm::Call& call = operation.call;
  constexpr std::int64_t kNsPerUs = 1000;
  TraceOperation result{
      .op = to_string(call.kind),
      .group = operation.group,
      .sequence = operation.sequence,
      .bytes = call.bytes,
      .begin_ns = operation.started_us * kNsPerUs,
      .end_ns = std::max(operation.started_us, operation.ended_us) * kNsPerUs,
      .label = call.label.text()};
  if (operation.state == comm::flight::State::Failed) {
    result.op += " (failed)";
  }
  switch (call.kind) {
    case comm::OpKind::Send:
      result.from = rank;
      result.to = call.root;
      break;
    case comm::OpKind::Recv:
      result.from = call.root;
      result.to = rank;
      break;
    case comm::OpKind::Broadcast:
    case comm::OpKind::Scatter:
      result.from = call.root;
      break;
    default:
      break;
  }
  return result;
}

NewOperations::NewOperations(const comm::flight::Record& first) {
  in(first);
}

std::vector<TraceOperation> NewOperations::in(
    const comm::flight::Record& record) {
  std::vector<TraceOperation> fresh;
  std::set<std::uint64_t> ended;
  for (const comm::flight::Operation& operation : record.operations) {
    if (!has_ended(operation)) {
      continue;
    }
    ended.insert(operation.number);
    if (taken_.count(operation.number) == 0) {
      fresh.push_back(trace_operation(operation, record.rank));
    }
  }
  // Replaced, not extended: an operation that has left the record does not come
  // back, so the set stays as small as the record.
  taken_ = std::move(ended);
  return fresh;
}

} // namespace argosy::observe
