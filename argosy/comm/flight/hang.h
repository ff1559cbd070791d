#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/flight/record.h"

namespace argosy::comm::flight {

// An operation that does not end, and the state of each rank that it needs.
struct Stall {
  // A rank that issued it.
  struct Caller {
    int rank = 0;
    Operation operation;

    bool operator==(const Caller&) const = default;
  };
  // A rank that did not issue it.
  struct Absentee {
    int rank = 0;
    std::uint64_t num_issued = 0; // operations in the group
    // The last of them, if it is still remembered.
    std::optional<Operation> last;
    // The operation of another group in which it waits.
    std::optional<Operation> waits_in;
    std::string reason; // why it wrote its record

    bool operator==(const Absentee&) const = default;
  };

  int group = 0;
  std::vector<int> ranks; // that it needs: the group's, or sender and receiver
  bool is_message = false;
  std::uint64_t sequence = 0;
  std::vector<Caller> waiting; // under way, or failed
  std::vector<Caller> passed;  // completed their part
  std::vector<int> forgot;     // issued it too long ago to remember
  std::vector<Absentee> absent;
  std::vector<int> unknown; // left no record
  // Ranks whose calls differ from those of the majority; all ranks if there is
  // no majority.
  std::vector<int> differ;

  // The ranks that others wait for, or that called something else.
  std::vector<int> blamed() const;

  bool operator==(const Stall&) const = default;
};

// Messages that were sent and never received.
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
  // Blamed ranks that wait for no other rank. If all of them wait, `circle`
  // lists them, and the culprits are those that most ranks of their group wait
  // for, or all if there are none.
  std::vector<int> culprits;
  std::vector<int> circle;

  bool operator==(const HangReport&) const = default;
};

// Finds where the ranks diverge. `records` are those of one job, in rank order,
// one for each rank; some may be missing.
HangReport find_hang(const std::vector<Record>& records);

// For people; times are in the local time zone.
std::ostream& operator<<(std::ostream& out, const HangReport& report);

// The same in a line for each stall: who waits for whom, in what.
std::string summary(const HangReport& report);

// "all_reduce of float32 [3], sum (collective 3 of group 0)"
std::string place_text(const Operation& operation);

// For machines.
std::string to_json(const HangReport& report);

} // namespace argosy::comm::flight
