#pragma once

#include <cstdint>

namespace argosy::comm::flight {

// Wall time that is cheap to record: the processor's counter if it is steady,
// converted to time only when somebody reads it.
class TickClock {
 public:
  TickClock();

  std::uint64_t now() const;

  // Converts ticks to microseconds since 1970, given a reading of both clocks.
  struct Reading {
    std::uint64_t ticks = 0;
    std::int64_t wall_ns = 0;
  };
  Reading read() const;
  std::int64_t wall_us(std::uint64_t ticks, const Reading& reading) const;

 private:
  bool has_counter_;
  Reading origin_;
};

} // namespace argosy::comm::flight
