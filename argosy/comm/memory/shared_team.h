#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/backend/gather_strings.h"

namespace argosy::comm::memory {

class Peers;
class Pipes;
class Team;

// When processes fetch from each other's buffers, if all of them can.
enum class Fetching {
  IfFaster, // than windows, which a group measures when it is made
  Always,
  Never,
};

struct MemoryOptions {
  Fetching fetching = Fetching::IfFaster;
  // The global ranks of the members, for errors; empty: 0, 1, ...
  std::vector<int> numbers = {};
  // See PeersSetup.
  std::chrono::milliseconds longest_guard{5000};
};

// A team together with the memory it works on.
class SharedTeam {
 public:
  // All ranks must call it; they may be threads of one process, processes of
  // one host, or both. Throws SystemError, on all ranks, if one of them cannot
  // map the memory of another.
  SharedTeam(
      std::string name,
      int rank,
      int size,
      const GatherStrings& gather_strings,
      const MemoryOptions& options = {});
  ~SharedTeam();
  SharedTeam(const SharedTeam&) = delete;
  SharedTeam& operator=(const SharedTeam&) = delete;

  Peers& peers() const;
  Team& team() const;
  Pipes& pipes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::comm::memory
