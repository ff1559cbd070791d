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
  ARGOSY_ASSERT(packed.size() >= sizeof(head), packed.size());
  std::memcpy(&head, packed.data(), sizeof(head));
  const std::size_t bytes = head.num_ranks * sizeof(std::uint64_t);
  ARGOSY_ASSERT(packed.size() >= sizeof(head) + 2 * bytes, packed.size());
  const std::byte* at = packed.data() + sizeof(head);
  return {
      .record = head.record,
      .counts =
          {numbers_at(at, head.num_ranks),
           numbers_at(at + bytes, head.num_ranks)},
      .data = packed.subspan(sizeof(head) + 2 * bytes)};
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
  }
  std::string how = disagreement(records, global_ranks);
  if (how.empty() && records[0].kind == OpKind::AllToAll) {
    how = disagreement(counts, global_ranks);
  }
  check_agreed(how, records[0], group);
}

} // namespace argosy::comm::message
