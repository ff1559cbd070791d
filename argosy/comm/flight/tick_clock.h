#pragma once

#include <cstdint>

namespace argosy::comm::flight {

// Wall time that costs little to note: the processor's counter where it is
// steady, turned into time only when somebody reads it.
class TickClock {
 public:
  TickClock();

  std::uint64_t now() const;

  // A moment as microseconds since 1970, as seen from `reading`.
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
