#include "argosy/comm/operation/op_record.h"

#include "argosy/comm/operation/current_operation.h"
#include "argosy/common/error.h"

namespace argosy::comm {

OpRecord make_record(
    OpKind kind, std::size_t count, Reduction reduction, int root) {
  return {
      .kind = kind,
      .dtype = reduction.dtype,
      .reduce = reduction.op,
      .root = root,
      .count = count};
}

OpRecord make_record(OpKind kind, std::size_t count, DType dtype, int root) {
  return make_record(kind, count, {dtype, ReduceOp::SUM}, root);
}

std::string describe(const OpRecord& record) {
  std::string text = to_string(record.kind);
  const bool from_any = is_pairwise(record.kind) && record.root < 0;
  if (record.kind == OpKind::AllToAll) { // whose counts differ by rank
    text += str(" of ", to_string(record.dtype));
  } else if (record.kind != OpKind::Barrier && !from_any) {
    text += str(" of ", record.count, " ", to_string(record.dtype));
  }
  if (reduces(record.kind)) {
    text += str(", ", to_string(record.reduce));
  }
  if (is_pairwise(record.kind)) {
    text += record.kind == OpKind::Send ? " to " : " from ";
    text += from_any ? "any rank" : str("rank ", record.root);
  } else if (record.root >= 0) {
    text += str(", root ", record.root);
  }
  return text;
}

namespace {

// "operation 7", "message 7". Whoever uses a backend without a group has only
// the backend's own number, and none for messages.
std::string number_text(const OpRecord& record) {
  const CurrentOperation& current = current_operation();
  if (current.is_known) {
    return str(
        is_pairwise(record.kind) ? "message " : "operation ", current.sequence);
  }
  return record.sequence == 0 ? "" : str("operation ", record.sequence);
}

int number_of(std::size_t rank, const std::vector<int>& global_ranks) {
  return global_ranks.empty() ? static_cast<int>(rank) : global_ranks[rank];
}

} // namespace

std::string for_text(const OpLabel& label) {
  return label.empty() ? "" : str(", for \"", label.text(), "\"");
}

std::string describe_in_group(const OpRecord& record) {
  const CurrentOperation& current = current_operation();
  OpRecord told = record;
  if (current.is_known && record.root >= 0) {
    told.root = current.root;
  }
  const std::string number = number_text(record);
  const std::string text = describe(told) + for_text(current.label);
  return number.empty() ? text : str(number, " (", text, ")");
}

std::string place_in_group(const OpRecord& record, const std::string& group) {
  return str(
      number_text(record),
      " of group ",
      group,
      for_text(current_operation().label));
}

std::string disagreement(
    const std::vector<OpRecord>& records,
    const std::vector<int>& global_ranks) {
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank] != records[0]) {
      return str_format(
          "rank {} calls {}, rank {} calls {}",
          number_of(0, global_ranks),
          describe(records[0]),
          number_of(rank, global_ranks),
          describe(records[rank]));
    }
  }
  return "";
}

std::string disagreement(
    const std::vector<RankCounts>& counts,
    const std::vector<int>& global_ranks) {
  for (std::size_t from = 0; from < counts.size(); ++from) {
    for (std::size_t to = 0; to < counts.size(); ++to) {
      const std::uint64_t sent = counts[from].send[to];
      const std::uint64_t expected = counts[to].receive[from];
      if (sent != expected) {
        return str_format(
            "rank {} sends {} elements to rank {}, which expects {}",
            number_of(from, global_ranks),
            sent,
            number_of(to, global_ranks),
            expected);
      }
    }
  }
  return "";
}

void check_agreed(
    const std::string& how, const OpRecord& what, const std::string& group) {
  ARGOSY_CHECK(
      how.empty(),
      "[comm.{}] ranks disagree about {}: {}",
      to_string(what.kind),
      place_in_group(what, group),
      how);
}

} // namespace argosy::comm
