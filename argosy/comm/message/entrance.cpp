#include "argosy/comm/message/entrance.h"

#include <cstring>

#include "argosy/common/error.h"

namespace argosy::comm::message {

namespace {

struct Head {
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

std::size_t max_note_bytes(int num_ranks) {
  return sizeof(Head) +
      2 * sizeof(std::uint64_t) * static_cast<std::size_t>(num_ranks) +
      kRideBytes;
}

std::vector<std::byte> pack(const Ticket& ticket) {
  const Head head{ticket.record, ticket.counts.send.size()};
  std::vector<std::byte> bytes;
  bytes.reserve(
      sizeof(head) + 16 * ticket.counts.send.size() + ticket.data.size());
  append(bytes, &head, sizeof(head));
  for (const auto* counts : {&ticket.counts.send, &ticket.counts.receive}) {
    append(bytes, counts->data(), counts->size() * sizeof(std::uint64_t));
  }
  append(bytes, ticket.data.data(), ticket.data.size());
  return bytes;
}

Seen unpack(Note note) {
  Head head;
  ARGOSY_ASSERT(note.size() >= sizeof(head), note.size());
  std::memcpy(&head, note.data(), sizeof(head));
  const std::size_t bytes = head.num_ranks * sizeof(std::uint64_t);
  ARGOSY_ASSERT(note.size() >= sizeof(head) + 2 * bytes, note.size());
  const std::byte* at = note.data() + sizeof(head);
  return {
      .record = head.record,
      .counts =
          {numbers_at(at, head.num_ranks),
           numbers_at(at + bytes, head.num_ranks)},
      .data = note.subspan(sizeof(head) + 2 * bytes)};
}

void check_agreement(
    const std::vector<Seen>& tickets, const std::string& group) {
  std::vector<OpRecord> records;
  std::vector<RankCounts> counts;
  for (const Seen& ticket : tickets) {
    records.push_back(ticket.record);
    counts.push_back(ticket.counts);
  }
  std::string how = disagreement(records);
  if (how.empty() && records[0].kind == OpKind::AllToAll) {
    how = disagreement(counts);
  }
  check_agreed(how, records[0], group);
}

} // namespace argosy::comm::message
