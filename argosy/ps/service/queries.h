#pragma once

#include <cstdint>

namespace argosy::ps {

// What clients ask a region, beside pulls: a number of the region, one of
// these, and fields.
enum class QueryKind : std::uint8_t {
  LastNumber = 1, // of a client's commands
  Barrier,        // answered when all workers have arrived
  Stat,           // rows and bytes of a table
  Hold,           // pushes wait until the save that follows has its cut
  Save,           // answered when the files are complete
  Load,           // answered when the files have been read
};

// What servers ask each other, and what ends them.
enum class ManageKind : std::uint8_t { Join = 1, TakeOver, Stop };

} // namespace argosy::ps
