#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// Shares bytes out to ranks, each byte to one of those that can take it, so
// that all get about equally many. Pure.
namespace argosy::checkpoint {

// Bytes that any of some ranks can take.
struct Lot {
  std::vector<int> ranks; // ascending, before relieve()
  std::uint64_t bytes = 0;
};

// How many bytes of a lot each of its ranks takes. Fractions are for the
// arithmetic; deal() rounds.
using Quotas = std::vector<double>;

// The quotas of each lot, so that the loads of ranks are as equal as the lots
// allow. `loads`: the bytes that each rank has already; becomes those that it
// has then.
std::vector<Quotas> share_out(
    const std::vector<Lot>& lots, std::vector<double>& loads);

// Moves bytes from ranks whose load is more than `tolerance` above the average
// of `ranks` to those of them below it, although these are not among the ranks
// of the lots: they become that, at the end, with quotas of their own.
void relieve(
    std::vector<Lot>& lots,
    std::vector<Quotas>& quotas,
    std::vector<double>& loads,
    const std::vector<int>& ranks,
    double tolerance);

// A part of a lot. It may be cut at multiples of `grain` bytes.
struct LotItem {
  std::uint64_t bytes = 0; // more than 0
  std::uint64_t grain = 1;

  std::uint64_t num_grains() const { return (bytes + grain - 1) / grain; }
};

struct Share {
  std::size_t item = 0;
  std::size_t taker = 0;   // index in the quotas
  std::uint64_t begin = 0; // in grains
  std::uint64_t end = 0;

  bool operator==(const Share&) const = default;
};

// Cuts the sequence of items at the ends of the quotas, rounded to the nearest
// grain: in the order of items and takers, all of each item.
std::vector<Share> deal(
    const std::vector<LotItem>& items, const Quotas& quotas);

} // namespace argosy::checkpoint
