#include "argosy/comm/message/op_record.h"

#include "argosy/common/error.h"

namespace argosy::comm::message {

OpRecord make_record(
    OpKind kind, std::size_t count, Reduction reduction, int root) {
  OpRecord result;
  result.kind = kind;
  result.count = count;
  result.dtype = reduction.dtype;
  result.op = reduction.op;
  result.root = root;
  return result;
}

std::string describe(const OpRecord& record) {
  std::string text = to_string(record.kind);
  if (record.kind == OpKind::Barrier) {
    return text;
  }
  text += " of ";
  if (record.kind != OpKind::AllToAll) {
    text += str(record.count, " ");
  }
  text += to_string(record.dtype);
  if (reduces(record.kind)) {
    text += str(", ", to_string(record.op));
  }
  if (record.root >= 0) {
    text +=
        str(", ", is_pairwise(record.kind) ? "peer " : "root ", record.root);
  }
  return text;
}

std::string disagreement(const std::vector<OpRecord>& records) {
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank] != records[0]) {
      return str(
          "rank 0 calls ",
          describe(records[0]),
          ", rank ",
          rank,
          " calls ",
          describe(records[rank]));
    }
  }
  return "";
}

std::string disagreement(const std::vector<RankCounts>& counts) {
  for (std::size_t from = 0; from < counts.size(); ++from) {
    for (std::size_t to = 0; to < counts.size(); ++to) {
      const std::uint64_t sent = counts[from].send[to];
      const std::uint64_t expected = counts[to].receive[from];
      if (sent != expected) {
        return str(
            "rank ",
            from,
            " sends ",
            sent,
            " elements to rank ",
            to,
            ", which expects ",
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
      "[comm.",
      to_string(what.kind),
      "] ranks disagree about operation ",
      what.sequence,
      " of group ",
      group,
      ": ",
      how);
}

} // namespace argosy::comm::message
