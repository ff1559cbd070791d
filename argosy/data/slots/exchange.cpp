#include "argosy/data/slots/exchange.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/data/splitmix.h"

namespace argosy::data {

namespace {

// What a member gets in one round, from all others together. Smaller rounds
// would stay in nearer caches, but members wait for each other in each. Four of
// them fit into half a piece of Records, which is what two members leave of it.
constexpr std::size_t kRoundBytes = std::size_t{15} << 17;

// Pieces of memory from this size on keep the samples that stay: smaller ones
// are given back, or their unused rests would add up.
constexpr std::size_t kLeastKept = std::size_t{1} << 20;

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
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
        random_(scramble(seed) + static_cast<std::uint64_t>(group.rank())) {
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
    return static_cast<std::size_t>(
        by_ == ShuffleBy::Random ? random_.below(num_members_)
                                 : scramble(key_of(sample)) % num_members_);
  }

 private:
  std::uint64_t key_of(const std::byte* sample) {
    const RecordView view(layout_, sample);
    if (by_ == ShuffleBy::Id) {
      return hash_of(view.id());
    }
    view.values(values_);
    return values_[slot_].size > 0 ? values_[slot_].id(0) : 0;
  }

  const RecordLayout& layout_;
  const ShuffleBy by_;
  const std::uint64_t num_members_;
  SplitMix random_;
  std::size_t slot_ = 0;
  std::vector<SlotValues> values_;
};

// Samples for one member, one after another, and their lengths: the receiver
// need not read the samples, which are in no cache of its when they arrive.
class SendBuffer {
 public:
  explicit SendBuffer(std::size_t bytes) { resize(bytes); }

  // False if it is too full. A sample longer than the buffer is taken by an
  // empty one.
  bool put(const std::byte* sample, std::size_t bytes) {
    if (filled_ + bytes > size_) {
      if (filled_ > 0) {
        return false;
      }
      resize(bytes);
    }
    std::memcpy(data_ + filled_, sample, bytes);
    filled_ += bytes;
    lengths_.push_back(static_cast<std::int32_t>(bytes));
    return true;
  }

  std::int64_t filled() const { return static_cast<std::int64_t>(filled_); }
  std::int64_t num_samples() const {
    return static_cast<std::int64_t>(lengths_.size());
  }
  at::Tensor samples() const { return memory_.narrow(0, 0, filled()); }
  at::Tensor lengths() {
    return at::from_blob(lengths_.data(), {num_samples()}, at::kInt);
  }
  void clear() {
    filled_ = 0;
    lengths_.clear();
  }

 private:
  void resize(std::size_t bytes) {
    memory_ = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
    data_ = static_cast<std::byte*>(memory_.data_ptr());
    size_ = bytes;
  }

  at::Tensor memory_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t filled_ = 0;
  std::vector<std::int32_t> lengths_;
};

// What a member tells another at the start of a round.
struct RoundNote {
  std::int64_t bytes = 0;
  std::int64_t samples = 0;
  std::int64_t has_more = 0; // the member does not send all it has
};

// Goes through the samples in the order of memory, each once. One that stays
// moves to the front of its piece, and one that leaves goes into the buffer of
// its member; when a buffer is full, all members exchange theirs. What arrives
// fills the room that has become free: beside the samples, memory is needed for
// what arrives before the first piece is done, and for rests of pieces.
class Exchange {
 public:
  Exchange(
      const RecordLayout& layout,
      const GlobalShuffleOptions& options,
      std::uint64_t seed,
      std::shared_ptr<Group> group)
      : group_(std::move(group)),
        self_(static_cast<std::size_t>(group_->rank())),
        dealer_(layout, options, seed, *group_) {
    const auto members = static_cast<std::size_t>(group_->nranks());
    const std::size_t others = std::max<std::size_t>(members - 1, 1);
    for (std::size_t i = 0; i < members; ++i) {
      buffers_.emplace_back(i == self_ ? 0 : kRoundBytes / others);
    }
  }

  Records run(Records&& records) {
    result_.reserve(records.size() + records.size() / 8);
    auto pieces = records.release();
    // The smallest first: what arrives needs new memory until one is done.
    std::ranges::stable_sort(pieces, std::less(), &Records::Piece::used);
    for (Records::Piece& piece : pieces) {
      deal_out(std::move(piece));
    }
    while (round(false)) {
    }
    return std::move(result_);
  }

 private:
  void deal_out(Records::Piece piece) {
    const bool keeps_piece = piece.capacity >= kLeastKept;
    std::byte* const end = piece.memory.get() + piece.used;
    std::byte* free = piece.memory.get();
    stay_.clear();
    std::size_t bytes = 0;
    for (std::byte* sample = free; sample != end; sample += bytes) {
      bytes = Records::bytes_of(sample);
      const std::size_t member = dealer_.member_of(sample);
      if (member != self_) {
        send(member, sample, bytes);
      } else if (keeps_piece) {
        if (free != sample) {
          std::memmove(free, sample, bytes);
        }
        stay_.push_back(free);
        free += bytes;
      } else {
        std::memcpy(result_.room(bytes), sample, bytes);
        result_.commit(bytes);
      }
    }
    if (keeps_piece) {
      piece.used = static_cast<std::size_t>(free - piece.memory.get());
      result_.adopt(std::move(piece), stay_);
    }
  }

  void send(std::size_t member, const std::byte* sample, std::size_t bytes) {
    while (!buffers_[member].put(sample, bytes)) {
      round(true);
    }
  }

  // Exchanges what the buffers hold. Returns whether any member has more.
  bool round(bool has_more) {
    fault_point("data.shuffle");
    std::vector<RoundNote> sent;
    for (const SendBuffer& buffer : buffers_) {
      sent.push_back({buffer.filled(), buffer.num_samples(), has_more});
    }
    std::vector<RoundNote> came(sent.size());
    alltoall_single(tensor_of(came), tensor_of(sent), {}, group_);
    receive(came);
    for (SendBuffer& buffer : buffers_) {
      buffer.clear();
    }
    return std::ranges::any_of(
        came, [](const RoundNote& note) { return note.has_more != 0; });
  }

  static at::Tensor tensor_of(std::vector<RoundNote>& notes) {
    constexpr std::int64_t kNumbers = sizeof(RoundNote) / sizeof(std::int64_t);
    return at::from_blob(
        notes.data(),
        {static_cast<std::int64_t>(notes.size()), kNumbers},
        at::kLong);
  }

  void receive(const std::vector<RoundNote>& came) {
    std::int64_t bytes = 0;
    std::int64_t samples = 0;
    for (const RoundNote& note : came) {
      bytes += note.bytes;
      samples += note.samples;
    }
    lengths_.resize(static_cast<std::size_t>(samples));
    std::byte* const room = result_.room(static_cast<std::size_t>(bytes));
    Tensors samples_out;
    Tensors lengths_out;
    Tensors samples_in;
    Tensors lengths_in;
    std::byte* to = room;
    std::int32_t* length = lengths_.data();
    for (std::size_t i = 0; i < came.size(); ++i) {
      samples_out.push_back(at::from_blob(to, {came[i].bytes}, at::kByte));
      lengths_out.push_back(at::from_blob(length, {came[i].samples}, at::kInt));
      to += came[i].bytes;
      length += came[i].samples;
      samples_in.push_back(buffers_[i].samples());
      lengths_in.push_back(buffers_[i].lengths());
    }
    alltoall({.out = lengths_out, .in = lengths_in}, group_);
    alltoall({.out = samples_out, .in = samples_in}, group_);
    ARGOSY_ASSERT(
        std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0}) ==
        bytes);
    result_.commit_samples(lengths_);
  }

  const std::shared_ptr<Group> group_;
  const std::size_t self_;
  Dealer dealer_;
  std::vector<SendBuffer> buffers_; // for each member; its own is not used
  Records result_;
  std::vector<const std::byte*> stay_; // samples of a piece
  std::vector<std::int32_t> lengths_;  // of the samples that arrive
};

} // namespace

Records exchange_records(
    const RecordLayout& layout,
    Records&& records,
    const GlobalShuffleOptions& options,
    std::uint64_t seed,
    const std::shared_ptr<Group>& group) {
  return Exchange(layout, options, seed, group ? group : get_group())
      .run(std::move(records));
}

} // namespace argosy::data
