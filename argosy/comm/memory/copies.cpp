// The collectives that move data without adding: broadcast, all_gather,
// all_to_all, gather, scatter, barrier. All are one exchange of blocks.

#include <algorithm>
#include <cstring>
#include <limits>

#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/memory_backend.h"
#include "argosy/comm/memory/steps.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"

namespace argosy::comm::memory {

namespace {

// What a rank gives through its small window: see most_in_window().
constexpr std::size_t kMappedSmallBytes = 4 << 10; // for each taker
constexpr std::size_t kPairSmallBytes = 8 << 10;
constexpr std::size_t kMostSmallBytes = 128 << 10;

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

// Whether every rank that gives gives the same to all who take.
bool same_for_all(OpKind kind) {
  return kind != OpKind::Scatter && kind != OpKind::AllToAll;
}

// Whether there is one rank that gives, and has nothing to take.
bool root_gives(OpKind kind) {
  return kind == OpKind::Broadcast || kind == OpKind::Scatter;
}

// What a rank tells of its blocks for and from one peer, in its small window.
struct BlockOffer {
  BufferRef ref = 0;
  std::uint64_t given = 0; // elements
  std::uint64_t expected = 0;
};

// Each rank gives a block to every rank and takes one from every rank; an empty
// block moves nothing. The collectives differ only in which blocks are empty
// and whether a giver has one block for all takers. The data takes one of three
// ways, which all ranks derive from the same offers:
//  - in the giver's small window, if all it gives is small;
//  - directly from the giver's buffer, if its takers can access that;
//  - in rounds through windows, if one giver allows neither, or where the
//  kernel
//    would copy for all of them and be slower. Then all ranks take this way, as
//    rounds need everybody.
// Every byte is copied once when direct, twice otherwise.
class BlockExchange {
 public:
  // The blocks must outlive it.
  BlockExchange(
      Team& team, const OpOffer& mine, const Blocks& give, const Blocks& take)
      : team_(team),
        mine_(mine),
        same_(same_for_all(mine.kind)),
        root_gives_(root_gives(mine.kind)),
        element_(size_of(mine.dtype)),
        give_(give),
        take_(take) {
    for (const int peer : others_first_neighbour(team)) {
      if (give_[peer].count > 0) {
        shared_ = give_[peer];
      }
    }
    mine_.each = same_ ? 0 : count_of_each();
  }

  void run(Deadline deadline) {
    offer_blocks();
    team_.enter(mine_, deadline);
    // enter() compares counts only where they are equal on all ranks.
    all_alike_ = !same_ && all_have_mine();
    if (!same_ && !all_alike_) {
      check_counts();
    }
    const int self = team_.rank();
    copy(take_[self].data, give_[self].data, bytes(take_[self]), true);
    if (needs_rounds()) {
      run_staged(deadline);
      return;
    }
    for (const int peer : others_first_neighbour(team_)) {
      take_from(peer);
      push_to(peer);
    }
    // Small windows stay valid until the operation after the next one. Buffers
    // do not: their owner must not return while others read or write them.
    if (!all_in_windows()) {
      leave_together(team_, deadline);
    }
  }

 private:
  std::size_t bytes(const Block& block) const { return block.count * element_; }

  const Block& given_to(int peer) const {
    return same_ ? shared_ : give_[static_cast<std::size_t>(peer)];
  }

  // To others: a rank copies what it keeps without help.
  std::size_t given_bytes() const {
    const auto self = static_cast<std::size_t>(team_.rank());
    return same_ ? bytes(shared_)
                 : (total_count(give_) - give_[self].count) * element_;
  }

  // The window has the offers, if blocks differ, then the blocks for others,
  // packed.
  std::size_t offers_bytes() const {
    return same_ ? 0 : give_.size() * sizeof(BlockOffer);
  }

  const BlockOffer* offers_of(int rank) const {
    return reinterpret_cast<const BlockOffer*>(team_.small_window(rank));
  }

  void offer_blocks() {
    std::byte* window = team_.next_small_window();
    ARGOSY_ASSERT(offers_bytes() + kMostSmallBytes <= kWindowBytes);
    mine_.access = Access::Mapped;
    for (const int peer : others_first_neighbour(team_)) {
      mine_.access = std::min(mine_.access, access_of(peer));
    }
    mine_.in_window = given_bytes() <= most_in_window();
    if (mine_.in_window) {
      put_small(window + offers_bytes());
    }
    // The root pushes a part of the data (see pushed()), so it must know our
    // output. The access is that of the output, as we give nothing.
    if (root_gives_ && team_.rank() != mine_.root) {
      const void* out = take_[static_cast<std::size_t>(mine_.root)].data;
      mine_.access = team_.access_of(out);
      mine_.out = team_.ref_of(out, mine_.access);
    }
    if (same_ && !mine_.in_window) {
      mine_.in = team_.ref_of(shared_.data, mine_.access);
    }
    for (std::size_t peer = 0; !same_ && peer < give_.size(); ++peer) {
      reinterpret_cast<BlockOffer*>(window)[peer] = {
          mine_.in_window ? 0 : team_.ref_of(give_[peer].data, mine_.access),
          give_[peer].count,
          take_[peer].count};
    }
  }

  // See OpOffer::each.
  std::uint32_t count_of_each() const {
    const std::size_t count = give_.front().count;
    const auto is_alike = [count](const Block& block) {
      return block.count == count;
    };
    return count <= std::numeric_limits<std::uint32_t>::max() &&
            std::ranges::all_of(give_, is_alike) &&
            std::ranges::all_of(take_, is_alike)
        ? static_cast<std::uint32_t>(count)
        : 0;
  }

  // Whether all blocks of all ranks have the same count. Then nobody needs to
  // read the counts in the windows of others.
  bool all_have_mine() const {
    for (int peer = 0; mine_.each > 0 && peer < team_.size(); ++peer) {
      if (team_.offer_of(peer).each != mine_.each) {
        return false;
      }
    }
    return mine_.each > 0;
  }

  // The window saves a synchronisation, and costs a copy whose lines travel
  // between the cores twice: to the owner that fills them and to the taker. So
  // it pays for less where takers can read the buffer itself, and for more
  // where each of several takers would have to call the kernel. Measured with
  // 2 and 4 ranks on 2 cores.
  std::size_t most_in_window() const {
    const auto takers = static_cast<std::size_t>(team_.size() - 1);
    switch (mine_.access) {
      case Access::Mapped:
        return std::min(kSmallBytes, takers * kMappedSmallBytes);
      case Access::KernelCopy:
        if (takers > 1) {
          return kMostSmallBytes;
        }
        return team_.peers().fetches_faster() ? kPairSmallBytes : kSmallBytes;
      case Access::Windowed:
        break;
    }
    return kSmallBytes;
  }

  Access access_of(int peer) const {
    const Block& from = given_to(peer);
    const Block& to = take_[static_cast<std::size_t>(peer)];
    if (from.count == 0) {
      return Access::Mapped;
    }
    if (to.count > 0 && from.data == to.data) {
      return Access::Windowed; // it is overwritten while others read it
    }
    return team_.access_of(from.data);
  }

  void put_small(std::byte* at) const {
    if (same_) {
      copy_bytes(at, shared_.data, given_bytes());
      return;
    }
    for (int peer = 0; peer < team_.size(); ++peer) {
      if (peer != team_.rank()) {
        const Block& block = give_[static_cast<std::size_t>(peer)];
        copy_bytes(at, block.data, bytes(block));
        at += bytes(block);
      }
    }
  }

  void check_counts() {
    for (int from = 0; from < team_.size(); ++from) {
      for (int to = 0; to < team_.size(); ++to) {
        const std::size_t sent = offers_of(from)[to].given;
        const std::size_t expected = offers_of(to)[from].expected;
        if (sent != expected) {
          team_.disagree(str_format(
              "rank {} sends {} elements to rank {}, which expects {}",
              team_.peers().number(from),
              sent,
              team_.peers().number(to),
              expected));
        }
      }
    }
  }

  bool all_in_windows() const {
    for (int peer = 0; peer < team_.size(); ++peer) {
      if (!team_.offer_of(peer).in_window) {
        return false;
      }
    }
    return true;
  }

  bool needs_rounds() const {
    bool any_windowed = false;
    bool any_kernel = false;
    bool any_mapped = false;
    for (int peer = 0; peer < team_.size(); ++peer) {
      const OpOffer& theirs = team_.offer_of(peer);
      if (!theirs.in_window) {
        any_windowed = any_windowed || theirs.access == Access::Windowed;
        any_kernel = any_kernel || theirs.access == Access::KernelCopy;
        any_mapped = any_mapped || theirs.access == Access::Mapped;
      }
    }
    return any_windowed ||
        (any_kernel && !any_mapped && !team_.peers().fetches_faster());
  }

  void take_from(int peer) {
    const Block& to = take_[static_cast<std::size_t>(peer)];
    const OpOffer& theirs = team_.offer_of(peer);
    if (to.count == 0) {
      return;
    }
    if (theirs.in_window) {
      copy_bytes(to.data, in_small_window(peer), bytes(to));
      return;
    }
    // The giver stores the last bytes itself: see pushed().
    const BufferRef ref = same_ ? theirs.in : offers_of(peer)[team_.rank()].ref;
    const std::size_t pulled = bytes(to) - pushed(team_.rank(), bytes(to));
    team_.peers().guarded(pulled, [&](std::size_t begin, std::size_t part) {
      team_.fetch(peer, at(to.data, begin), ref + begin, part);
    });
  }

  // The root of a broadcast or scatter takes nothing, and would only wait:
  // it stores the end of each block itself while the takers fetch the rest.
  void push_to(int peer) {
    const Block& from = given_to(peer);
    if (mine_.in_window || from.count == 0) {
      return;
    }
    const std::size_t now = pushed(peer, bytes(from));
    if (now == 0) {
      return;
    }
    const std::size_t begin = bytes(from) - now;
    team_.peers().guarded(now, [&](std::size_t done, std::size_t part) {
      team_.store(
          peer,
          team_.offer_of(peer).out + begin + done,
          at(from.data, begin + done),
          part);
    });
  }

  // How many of the bytes for `taker`, the last ones, the giver stores itself.
  // Giver and taker compute it from the same offers. An n-th of each block
  // keeps all n ranks about equally busy.
  std::size_t pushed(int taker, std::size_t bytes) const {
    if (!root_gives_ || team_.offer_of(taker).access == Access::Windowed) {
      return 0;
    }
    return bytes / static_cast<std::size_t>(team_.size()) / kLine * kLine;
  }

  const std::byte* in_small_window(int peer) const {
    const std::byte* at = team_.small_window(peer) + offers_bytes();
    if (all_alike_) {
      const int before = team_.rank() - (peer < team_.rank() ? 1 : 0);
      return at + static_cast<std::size_t>(before) * mine_.each * element_;
    }
    for (int before = 0; !same_ && before < team_.rank(); ++before) {
      at += before == peer ? 0 : offers_of(peer)[before].given * element_;
    }
    return at;
  }

  // Bytes of the longest block of all, which sets the number of rounds.
  std::size_t longest() const {
    if (same_) {
      return mine_.count * element_;
    }
    std::size_t most = 0;
    for (int from = 0; from < team_.size(); ++from) {
      for (int to = 0; to < team_.size(); ++to) {
        most = std::max<std::size_t>(most, offers_of(from)[to].given);
      }
    }
    return most * element_;
  }

  void run_staged(Deadline deadline) {
    const auto n = static_cast<std::size_t>(team_.size());
    // A window holds a part of every block, or one part for all takers.
    const std::size_t per_block =
        same_ ? kRoundBytes : kRoundBytes / n / kLine * kLine;
    ARGOSY_ASSERT(per_block > 0);
    const auto part = [&](const Block& block, std::uint32_t round) {
      const std::size_t begin = std::min(bytes(block), round * per_block);
      return Slice{begin, std::min(per_block, bytes(block) - begin)};
    };
    const auto offset = [&](int peer) {
      return same_ ? 0 : per_block * static_cast<std::size_t>(peer);
    };
    run_rounds(
        team_,
        rounds_for(longest(), per_block),
        [&](std::uint32_t round, std::byte* window) {
          const auto put = [&](int peer) {
            const Block& block = given_to(peer);
            const Slice piece = part(block, round);
            copy_bytes(
                window + offset(peer),
                static_cast<const std::byte*>(block.data) + piece.begin,
                piece.count);
          };
          if (same_) {
            put(0);
            return;
          }
          std::ranges::for_each(others_first_neighbour(team_), put);
        },
        [&](std::uint32_t round, int index) {
          for (const int peer : others_first_neighbour(team_)) {
            const Block& block = take_[static_cast<std::size_t>(peer)];
            const Slice piece = part(block, round);
            copy_bytes(
                static_cast<std::byte*>(block.data) + piece.begin,
                team_.window(peer, index) + offset(team_.rank()),
                piece.count);
          }
        },
        deadline);
  }

  Team& team_;
  OpOffer mine_;
  const bool same_;
  const bool root_gives_;
  const std::size_t element_;
  const Blocks& give_; // to each rank
  const Blocks& take_; // from each rank
  Block shared_;       // what all who take from us take, if that is the same
  bool all_alike_ = false; // see all_have_mine()
};

// Blocks of which only that of `rank` is something.
Blocks only(const Team& team, int rank, Block block) {
  Blocks blocks(static_cast<std::size_t>(team.size()));
  blocks[static_cast<std::size_t>(rank)] = block;
  return blocks;
}

Blocks to_all(const Team& team, Block block) {
  return Blocks(static_cast<std::size_t>(team.size()), block);
}

Block block_of(const void* data, std::size_t count) {
  return {const_cast<void*>(data), count};
}

} // namespace

// Entering an operation is a barrier already.
void MemoryBackend::barrier(Deadline deadline) {
  shared_.team().enter(
      {make_record(OpKind::Barrier, 0, DType::UInt8)}, deadline);
}

void MemoryBackend::broadcast(
    void* data, std::size_t count, DType dtype, int root, Deadline deadline) {
  Team& team = shared_.team();
  const bool is_root = team.rank() == root;
  const Blocks nothing = to_all(team, {});
  const Block all{data, count};
  BlockExchange(
      team,
      {make_record(OpKind::Broadcast, count, dtype, root)},
      is_root ? to_all(team, all) : nothing,
      is_root ? nothing : only(team, root, all))
      .run(deadline);
}

void MemoryBackend::all_gather(
    const void* in,
    const Blocks& out,
    std::size_t count,
    DType dtype,
    Deadline deadline) {
  Team& team = shared_.team();
  BlockExchange(
      team,
      // Every rank also "gives" to itself, which run() turns into a local copy.
      {make_record(OpKind::AllGather, count, dtype)},
      to_all(team, block_of(in, count)),
      out)
      .run(deadline);
}

void MemoryBackend::gather(
    const void* in,
    const Blocks& out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline) {
  Team& team = shared_.team();
  BlockExchange(
      team,
      {make_record(OpKind::Gather, count, dtype, root)},
      only(team, root, block_of(in, count)),
      team.rank() == root ? out : to_all(team, {}))
      .run(deadline);
}

void MemoryBackend::scatter(
    const Blocks& in,
    void* out,
    std::size_t count,
    DType dtype,
    int root,
    Deadline deadline) {
  Team& team = shared_.team();
  BlockExchange(
      team,
      {make_record(OpKind::Scatter, count, dtype, root)},
      team.rank() == root ? in : to_all(team, {}),
      only(team, root, {out, count}))
      .run(deadline);
}

void MemoryBackend::all_to_all(
    const Blocks& in, const Blocks& out, DType dtype, Deadline deadline) {
  Team& team = shared_.team();
  // Counts may differ from rank to rank, so the record that enter() compares
  // has none; check_counts() compares them pair by pair.
  BlockExchange(team, {make_record(OpKind::AllToAll, 0, dtype)}, in, out)
      .run(deadline);
}

} // namespace argosy::comm::memory
