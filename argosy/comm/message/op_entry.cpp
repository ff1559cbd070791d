#include "argosy/comm/message/op_entry.h"

#include <cstring>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

struct Header {
  OpRecord record;
  std::uint64_t num_ranks = 0; // of the counts that follow
};

void append(std::vector<std::byte>& bytes, const void* data, std::size_t size) {
  const std::size_t end = bytes.size();
  bytes.resize(end + size);
  if (size > 0) {
    std::memcpy(bytes.data() + end, data, size);
  }
}

std::vector<std::uint64_t> numbers_at(const std::byte* data, std::size_t size) {
  std::vector<std::uint64_t> numbers(size);
  if (size > 0) {
    std::memcpy(numbers.data(), data, size * sizeof(std::uint64_t));
  }
  return numbers;
}

// What peers send is checked: they may run another version.
void check_whole(bool whole, std::size_t bytes) {
  ARGOSY_CHECK(
      whole,
      "[comm] a rank entered an operation with {} bytes, expected more: do all "
      "ranks run the same version?",
      bytes);
}

void check_known(const OpRecord& record) {
  ARGOSY_CHECK(
      static_cast<std::size_t>(record.kind) < kNumOpKinds &&
          static_cast<int>(record.dtype) < kNumDTypes &&
          static_cast<int>(record.reduce) < kNumReduceOps,
      "[comm] a rank entered an unknown operation ({}, {}, {}): do all ranks "
      "run the same version?",
      static_cast<int>(record.kind),
      static_cast<int>(record.dtype),
      static_cast<int>(record.reduce));
}

} // namespace

std::size_t max_entry_bytes(int num_ranks) {
  return sizeof(Header) +
      2 * sizeof(std::uint64_t) * static_cast<std::size_t>(num_ranks) +
      kInlineBytes;
}

std::vector<std::byte> pack(const OpEntry& entry) {
  const Header head{entry.record, entry.counts.send.size()};
  std::vector<std::byte> bytes;
  bytes.reserve(
      sizeof(head) + 16 * entry.counts.send.size() + entry.data.size());
  append(bytes, &head, sizeof(head));
  for (const auto* counts : {&entry.counts.send, &entry.counts.receive}) {
    append(bytes, counts->data(), counts->size() * sizeof(std::uint64_t));
  }
  append(bytes, entry.data.data(), entry.data.size());
  return bytes;
}

OpEntryView unpack(ByteSpan packed) {
  Header head;
  check_whole(packed.size() >= sizeof(head), packed.size());
  std::memcpy(&head, packed.data(), sizeof(head));
  packed = packed.subspan(sizeof(head));
  check_known(head.record);
  // Divides: the product of a wrong number could overflow.
  check_whole(
      head.num_ranks <= packed.size() / (2 * sizeof(std::uint64_t)),
      packed.size());
  const std::size_t bytes = head.num_ranks * sizeof(std::uint64_t);
  return {
      .record = head.record,
      .counts =
          {numbers_at(packed.data(), head.num_ranks),
           numbers_at(packed.data() + bytes, head.num_ranks)},
      .data = packed.subspan(2 * bytes)};
}

const std::byte* data_at(
    const OpEntryView& entry, std::size_t offset, std::size_t bytes) {
  check_whole(
      offset <= entry.data.size() && bytes <= entry.data.size() - offset,
      entry.data.size());
  return entry.data.data() + offset;
}

void check_agreement(
    const std::vector<OpEntryView>& entries,
    const std::string& group,
    const std::vector<int>& global_ranks) {
  std::vector<OpRecord> records;
  std::vector<RankCounts> counts;
  for (const OpEntryView& entry : entries) {
    records.push_back(entry.record);
    counts.push_back(entry.counts);
    // disagreement() compares the counts of every pair.
    check_whole(
        entry.record.kind != OpKind::AllToAll ||
            entry.counts.send.size() == entries.size(),
        entry.data.size());
  }
  std::string how = disagreement(records, global_ranks);
  if (how.empty() && records[0].kind == OpKind::AllToAll) {
    how = disagreement(counts, global_ranks);
  }
  check_agreed(how, records[0], group);
}

} // namespace argosy::comm::message
