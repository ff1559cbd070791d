#include "argosy/ps/service/sequence.h"

#include <algorithm>

#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

std::uint64_t Sequences::last(std::uint64_t client) const {
  const auto found = entries_.find(client);
  return found == entries_.end() ? 0 : found->second.number;
}

Sequences::Verdict Sequences::judge(
    std::uint64_t client, std::uint64_t number) const {
  const std::uint64_t before = last(client);
  if (number <= before) {
    return Verdict::Duplicate;
  }
  return number == before + 1 ? Verdict::New : Verdict::Gap;
}

void Sequences::record(std::uint64_t client, std::uint64_t number) {
  entries_[client] = {number, ++clock_};
  if (entries_.size() > most_) {
    forget_oldest();
  }
}

void Sequences::forget_oldest() {
  entries_.erase(std::min_element(
      entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return a.second.age < b.second.age;
      }));
}

void Sequences::save(ByteWriter& out) const {
  out.put(clock_).put(static_cast<std::uint32_t>(entries_.size()));
  for (const auto& [client, entry] : entries_) {
    out.put(client).put(entry.number).put(entry.age);
  }
}

void Sequences::load(ByteReader& in) {
  clock_ = in.get<std::uint64_t>();
  entries_.clear();
  const std::size_t count = in.count(3 * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i) {
    const auto client = in.get<std::uint64_t>();
    const auto number = in.get<std::uint64_t>();
    entries_[client] = {number, in.get<std::uint64_t>()};
  }
}

} // namespace argosy::ps
