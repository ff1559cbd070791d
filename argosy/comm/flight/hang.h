#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/flight/record.h"

namespace argosy::comm::flight {

// An operation that does not end, and how each rank that it needs stands to it.
struct Stall {
  // A rank that issued it.
  struct Caller {
    int rank = 0;
    Operation operation;

    bool operator==(const Caller&) const = default;
  };
  // A rank that did not.
  struct Absentee {
    int rank = 0;
    std::uint64_t num_issued = 0; // operations there
    // The last of them, if it is still remembered.
    std::optional<Operation> last;
    // What it waits for elsewhere.
    std::optional<Operation> waits_in;
    std::string reason; // why it wrote its record

    bool operator==(const Absentee&) const = default;
  };

  int group = 0;
  std::vector<int> ranks; // those it needs: the group's, or sender and receiver
  bool is_message = false;
  std::uint64_t sequence = 0;
  std::vector<Caller> waiting; // under way, or failed
  std::vector<Caller> passed;  // completed their part of it
  std::vector<int> forgot;     // issued it too long ago to remember
  std::vector<Absentee> absent;
  std::vector<int> unknown; // left no record
  // Ranks whose calls differ from what most of them call; both, when no call
  // has a majority.
  std::vector<int> differ;

  // Whom the others wait for, or who called something else.
  std::vector<int> blamed() const;

  bool operator==(const Stall&) const = default;
};

// Messages that were sent, and that nobody asked for.
struct Unreceived {
  int group = 0;
  int from = 0;
  int to = 0;
  std::uint64_t first = 0; // sequence
  std::uint64_t count = 0;

  bool operator==(const Unreceived&) const = default;
};

struct HangReport {
  int world_size = 0;
  std::vector<int> unrecorded; // ranks without a record
  std::vector<Stall> stalls;
  std::vector<Unreceived> unreceived;
  // Blamed ranks that wait for nobody themselves. When all do, `circle` has
  // them, and these are the ones that most ranks of their group wait for, if
  // there are any, else all.
  std::vector<int> culprits;
  std::vector<int> circle;

  bool operator==(const HangReport&) const = default;
};

// Where the ranks part. `records` are those of one job, one for each rank, in
// rank order; some may be missing.
HangReport find_hang(const std::vector<Record>& records);

// For people; times are of the local time zone.
std::ostream& operator<<(std::ostream& out, const HangReport& report);

// For machines.
std::string to_json(const HangReport& report);

} // namespace argosy::comm::flight
