#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

// Decides which unused buffers stay in memory and which leave. Pure.
namespace argosy::offload {

struct OffloadUse {
  std::size_t buffer = 0;
  bool writes = true;

  bool operator==(const OffloadUse&) const = default;
};

// The buffers that each step of a round uses. Rounds repeat: the first step
// follows the last. A step may use nothing, such as the time between two
// optimizer steps.
struct OffloadSchedule {
  std::vector<std::int64_t> bytes; // of each buffer
  std::vector<std::vector<OffloadUse>> steps;
};

// The interval between two uses of a buffer.
struct OffloadGap {
  std::size_t buffer = 0;
  std::size_t from = 0;    // step
  std::size_t to = 0;      // step; in the next round unless after `from`
  bool stays = false;      // in memory
  bool is_written = false; // to the file: it has changed since it was read

  bool operator==(const OffloadGap&) const = default;
};

struct OffloadPlan {
  std::vector<OffloadGap> gaps; // by `from`, then by buffer
  // The buffers that must be read for each step.
  std::vector<std::vector<std::size_t>> arrivals;
  std::int64_t memory = 0;  // maximum bytes of unused buffers in memory
  std::int64_t read = 0;    // bytes in a round
  std::int64_t written = 0; // bytes in a round

  bool operator==(const OffloadPlan&) const = default;
};

// Lets buffers stay in as many gaps as fit into `budget` bytes. Considers gaps
// by weight (bytes times the number of steps in the gap), smallest first, and
// lets the buffer stay if there is room in all those steps. Buffers in use do
// not count against the budget. Throws InvalidArgument if a step uses an
// unknown buffer, or the same buffer twice.
OffloadPlan plan_offload(const OffloadSchedule& schedule, std::int64_t budget);

// "buffer 0: 2 to 1, leaves, written"
std::string to_string(const OffloadGap& gap);
std::ostream& operator<<(std::ostream& out, const OffloadGap& gap);
std::ostream& operator<<(std::ostream& out, const OffloadPlan& plan);

} // namespace argosy::offload
