#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

// Which buffers stay in memory while nobody uses them, and which leave. Pure.
namespace argosy::offload {

struct OffloadUse {
  std::size_t buffer = 0;
  bool writes = true;

  bool operator==(const OffloadUse&) const = default;
};

// What each step of a round uses; after the last step comes the first again. A
// step may use nothing: time in which all can be elsewhere.
struct OffloadSchedule {
  std::vector<std::int64_t> bytes; // of each buffer
  std::vector<std::vector<OffloadUse>> steps;
};

// The time from one use of a buffer to its next.
struct OffloadGap {
  std::size_t buffer = 0;
  std::size_t from = 0; // step
  std::size_t to = 0;   // step; of the next round when not after `from`
  bool stays = false;
  bool is_written = false; // as it leaves: it has changed since it came

  bool operator==(const OffloadGap&) const = default;
};

struct OffloadPlan {
  std::vector<OffloadGap> gaps; // by `from`, then by buffer
  // What has to be read for each step.
  std::vector<std::vector<std::size_t>> arrivals;
  std::int64_t memory = 0; // the most that stays at one time
  std::int64_t read = 0;   // in a round
  std::int64_t written = 0;

  bool operator==(const OffloadPlan&) const = default;
};

// Gaps are taken by weight, which is bytes times the steps that the buffer is
// not used in, the least first: what stays when there is room in each of those
// steps fills the most gaps. `budget` is for what stays; buffers in use do not
// count. Throws InvalidArgument for buffers that the schedule does not have, or
// that a step uses twice.
OffloadPlan plan_offload(const OffloadSchedule& schedule, std::int64_t budget);

// "buffer 0: 2 to 1, leaves, written"
std::string to_string(const OffloadGap& gap);
std::ostream& operator<<(std::ostream& out, const OffloadGap& gap);
std::ostream& operator<<(std::ostream& out, const OffloadPlan& plan);

} // namespace argosy::offload
