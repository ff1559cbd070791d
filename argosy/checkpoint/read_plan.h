#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "argosy/checkpoint/manifest.h"

// Which rank reads what and who gets it. A pure function.
namespace argosy::checkpoint {

// A box of a tensor of a manifest that a rank needs.
struct Want {
  std::uint32_t tensor = 0; // index in Manifest::tensors
  Box box;

  bool operator==(const Want&) const = default;
};

// A range of a piece that one rank reads for itself and others of its host.
struct PlannedRead {
  int reader = 0;
  std::uint32_t tensor = 0;
  std::uint32_t piece = 0; // index in TensorRecord::pieces
  // Elements of the piece, row-major. Begins and ends with chunks.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  // The wants that need some of it; the reader's first.
  struct Taker {
    int rank = 0;
    std::uint32_t want = 0; // index in the rank's list

    bool operator==(const Taker&) const = default;
  };
  std::vector<Taker> takers;

  bool operator==(const PlannedRead&) const = default;
};

struct ReadPlan {
  // In the order of execution. What a rank reads in a wave for others has at
  // most the given bytes.
  std::vector<std::vector<PlannedRead>> waves;

  bool operator==(const ReadPlan&) const = default;
};

// Plans reads such that no byte of a file is read twice on one host, only
// chunks are read that some rank needs, and the ranks of a host read about
// equally many bytes; a rank reads rather what it needs itself. `hosts[r]` is
// the host of rank r.
ReadPlan plan_reads(
    const Manifest& manifest,
    const std::vector<std::vector<Want>>& wants,
    const std::vector<int>& hosts,
    std::uint64_t wave_bytes = std::uint64_t{64} << 20);

std::ostream& operator<<(std::ostream& out, const ReadPlan& plan);

} // namespace argosy::checkpoint
