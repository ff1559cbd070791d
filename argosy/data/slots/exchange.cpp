#include "argosy/data/slots/exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"

namespace argosy::data {

namespace {

// What a member sends at a time: as much as stays in a cache between the copy
// that collects it and the one that sends it.
constexpr std::size_t kRoundBytes = std::size_t{2} << 20;

// FNV-1a, and a last step that spreads the high bits.
std::uint64_t hash_of(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

// Draws or computes to which member each sample goes.
class Dealer {
 public:
  Dealer(
      const RecordLayout& layout,
      const GlobalShuffleOptions& options,
      std::uint64_t seed,
      const Group& group)
      : layout_(layout),
        by_(options.by),
        num_members_(static_cast<std::uint64_t>(group.nranks())),
        random_(seed * 1000003 + static_cast<std::uint64_t>(group.rank())) {
    ARGOSY_CHECK(
        by_ != ShuffleBy::Id || layout.has_texts(),
        "[data.global_shuffle] by id: samples have none, expected has_id of "
        "the format");
    ARGOSY_CHECK(
        !options.merge || by_ == ShuffleBy::Id,
        "[data.global_shuffle] merge: expected ShuffleBy::Id");
    if (by_ == ShuffleBy::Slot) {
      slot_ = slot_index(layout.slots(), options.slot);
      ARGOSY_CHECK(
          layout.slots()[slot_].type == SlotType::Id,
          "[data.global_shuffle] slot \"{}\" has floats, expected ids",
          options.slot);
    }
  }

  std::size_t member_of(const std::byte* sample) {
    return static_cast<std::size_t>(number_of(sample) % num_members_);
  }

 private:
  std::uint64_t number_of(const std::byte* sample) {
    if (by_ == ShuffleBy::Random) {
      return random_() >> 16; // the lowest bits of some generators are weak
    }
    const RecordView view(layout_, sample);
    if (by_ == ShuffleBy::Id) {
      return hash_of(std::as_bytes(std::span(view.id())));
    }
    view.values(values_);
    const std::uint64_t id = values_[slot_].size > 0 ? values_[slot_].id(0) : 0;
    return hash_of(std::as_bytes(std::span(&id, 1)));
  }

  const RecordLayout& layout_;
  const ShuffleBy by_;
  const std::uint64_t num_members_;
  std::mt19937_64 random_;
  std::size_t slot_ = 0;
  std::vector<SlotValues> values_;
};

// What one member sends in one round: the samples for each member together.
struct Outgoing {
  at::Tensor bytes = {};
  std::vector<std::int64_t> splits; // bytes for each member
};

class Exchange {
 public:
  Exchange(
      const RecordLayout& layout,
      const GlobalShuffleOptions& options,
      std::uint64_t seed,
      std::shared_ptr<Group> group)
      : layout_(layout),
        group_(std::move(group)),
        num_members_(static_cast<std::size_t>(group_->nranks())),
        dealer_(layout, options, seed, *group_) {}

  Records run(const Records& records) {
    Records received;
    std::size_t next = 0;
    bool goes_on = true;
    while (goes_on) {
      const Outgoing outgoing = collect(records, next);
      goes_on = round(outgoing, next < records.size(), received);
    }
    return received;
  }

 private:
  Outgoing collect(const Records& records, std::size_t& next) {
    Outgoing outgoing{.splits = std::vector<std::int64_t>(num_members_, 0)};
    const std::size_t first = next;
    std::size_t total = 0;
    member_of_.clear();
    for (; next < records.size() && total < kRoundBytes; ++next) {
      const std::size_t member = dealer_.member_of(records[next]);
      const std::size_t bytes = RecordView(layout_, records[next]).bytes();
      member_of_.push_back(member);
      outgoing.splits[member] += static_cast<std::int64_t>(bytes);
      total += bytes;
    }
    outgoing.bytes = buffer(total);
    copy(records, first, outgoing);
    return outgoing;
  }

  void copy(
      const Records& records, std::size_t first, const Outgoing& outgoing) {
    auto* to = static_cast<std::byte*>(outgoing.bytes.data_ptr());
    std::vector<std::byte*> to_member;
    for (const std::int64_t bytes : outgoing.splits) {
      to_member.push_back(to);
      to += bytes;
    }
    for (std::size_t i = 0; i < member_of_.size(); ++i) {
      const std::byte* const sample = records[first + i];
      const std::size_t bytes = RecordView(layout_, sample).bytes();
      std::byte*& place = to_member[member_of_[i]];
      std::memcpy(place, sample, bytes);
      place += bytes;
    }
  }

  // The same memory in each round.
  at::Tensor buffer(std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    if (!buffer_.defined() || buffer_.numel() < size) {
      buffer_ = at::empty({size}, at::kByte);
    }
    return buffer_.narrow(0, 0, size);
  }

  // Returns whether any member has more to send.
  bool round(const Outgoing& outgoing, bool has_more, Records& received) {
    const auto members = static_cast<std::int64_t>(num_members_);
    const at::Tensor sizes_out = at::empty({members, 2}, at::kLong);
    const at::Tensor sizes_in = at::empty({members, 2}, at::kLong);
    auto* const sent = sizes_in.data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < num_members_; ++i) {
      sent[2 * i] = outgoing.splits[i];
      sent[2 * i + 1] = has_more ? 1 : 0;
    }
    alltoall_single(sizes_out, sizes_in, {}, group_);
    RowSplits splits{.in = outgoing.splits};
    bool goes_on = false;
    for (std::size_t i = 0; i < num_members_; ++i) {
      const auto* const came = sizes_out.data_ptr<std::int64_t>() + 2 * i;
      splits.out.push_back(came[0]);
      goes_on = goes_on || came[1] != 0;
    }
    const std::int64_t total =
        std::accumulate(splits.out.begin(), splits.out.end(), std::int64_t{0});
    std::byte* const room = received.room(static_cast<std::size_t>(total));
    alltoall_single(
        at::from_blob(room, {total}, at::kByte),
        outgoing.bytes,
        splits,
        group_);
    received.commit_samples(static_cast<std::size_t>(total));
    return goes_on;
  }

  const RecordLayout& layout_;
  const std::shared_ptr<Group> group_;
  const std::size_t num_members_;
  Dealer dealer_;
  std::vector<std::size_t> member_of_; // of the samples of a round
  at::Tensor buffer_;
};

} // namespace

Records exchange_records(
    const RecordLayout& layout,
    Records&& records,
    const GlobalShuffleOptions& options,
    std::uint64_t seed,
    const std::shared_ptr<Group>& group) {
  const Records own = std::move(records);
  return Exchange(layout, options, seed, group ? group : get_group()).run(own);
}

} // namespace argosy::data
