#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "argosy/comm/backend/slices.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/steps.h"
#include "argosy/comm/memory/team.h"

// Sums of the buffers of all ranks, in rank order. Not installed.
namespace argosy::comm::memory {

// The inputs of all ranks for one piece, in rank order.
using Inputs = std::vector<const void*>;

inline void add_up(
    const Inputs& inputs, void* out, std::size_t count, Reduction reduction) {
  comm::reduce(
      out,
      inputs.data(),
      static_cast<int>(inputs.size()),
      count,
      reduction.dtype,
      reduction.op);
}

// Elements that fill whole cache lines.
inline std::size_t grain_of(DType dtype) {
  return kLine / size_of(dtype);
}

template <typename InputOf>
Inputs inputs_of(const Team& team, const InputOf& input_of) {
  Inputs inputs(static_cast<std::size_t>(team.size()));
  for (int rank = 0; rank < team.size(); ++rank) {
    inputs[rank] = input_of(rank);
  }
  return inputs;
}

// One slice of the buffers: what this rank adds up, and where the sum belongs.
struct SumPlan {
  const void* own_in = nullptr;
  std::vector<BufferRef> inputs; // of all ranks
  void* own_out = nullptr;       // null: the sum belongs to others only
  std::vector<std::pair<int, BufferRef>> outputs; // of others
  std::size_t count = 0;
};

// Adds up a slice piece by piece. With n ranks and a buffer of B bytes, a rank
// reads B / n bytes from every rank and writes B / n bytes to every taker.
// There is no second pass as in a ring: the piece is still in this core's cache
// when it is added and stored, so each buffer is read once and written once.
//
// Each sum is complete before it is stored, so a taker's output may be its own
// input: nobody else reads the elements of this slice.
class SliceSum {
 public:
  SliceSum(Team& team, Reduction reduction)
      : team_(team),
        reduction_(reduction),
        element_(size_of(reduction.dtype)),
        piece_(piece_bytes() / element_) {}

  void run(const SumPlan& plan) {
    // A failed rank waits for the guards of all others before it gives up its
    // buffer. Short guards bound that wait; one for each piece would cost more.
    const std::size_t stretch = piece_ * kGuardedPieces;
    for (std::size_t done = 0; done < plan.count; done += stretch) {
      const auto guard = team_.guard_buffers();
      run(plan, done, std::min(done + stretch, plan.count));
    }
  }

 private:
  void run(const SumPlan& plan, std::size_t begin, std::size_t end) {
    for (std::size_t done = begin; done < end; done += piece_) {
      const std::size_t now = std::min(piece_, end - done);
      const std::size_t offset = done * element_;
      // Our own scratch piece is free: our input is read in place.
      void* sum = plan.own_out == nullptr ? scratch(team_.rank())
                                          : at(plan.own_out, offset);
      const auto input_of = [&](int rank) -> const void* {
        return rank == team_.rank()
            ? at(plan.own_in, offset)
            : bring(rank, plan.inputs[rank] + offset, now * element_);
      };
      add_up(inputs_of(team_, input_of), sum, now, reduction_);
      for (const auto& [rank, ref] : plan.outputs) {
        team_.store(rank, ref + offset, sum, now * element_);
      }
    }
  }

  // Mapped pieces are sized for the first-level cache. Fetched pieces are sized
  // for the second, because each fetch is a system call; those of all ranks
  // must fit into the two windows that scratch() uses.
  std::size_t piece_bytes() const {
    if (team_.common_access() == Access::Mapped) {
      return kMappedPiece;
    }
    const auto n = static_cast<std::size_t>(team_.size());
    return std::min(kFetchPiece, 2 * kWindowBytes / n / kLine * kLine);
  }

  // In windows 2 and 3, which lie side by side. Peers may still read windows 0
  // and 1: reduce_scatter publishes its references there. Mapped inputs are not
  // brought here, so the sum is alone: pieces for all ranks might not fit.
  std::byte* scratch(int rank) const {
    const bool alone = team_.common_access() == Access::Mapped;
    const auto place = alone ? 0 : static_cast<std::size_t>(rank);
    return team_.window(team_.rank(), 2) + place * piece_ * element_;
  }

  const void* bring(int rank, BufferRef ref, std::size_t bytes) {
    if (team_.offer_of(rank).access == Access::Mapped) {
      return team_.local_address(rank, ref);
    }
    team_.fetch(rank, scratch(rank), ref, bytes);
    return scratch(rank);
  }

  Team& team_;
  const Reduction reduction_;
  const std::size_t element_;
  const std::size_t piece_; // elements
};

} // namespace argosy::comm::memory
