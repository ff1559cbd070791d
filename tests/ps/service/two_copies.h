#pragma once

#include <cstdint>
#include <map>

#include "argosy/ps/service/directory.h"

// For tests that kill servers of a job with two copies: it withstands one loss
// at a time.
namespace argosy::ps {

class TwoCopies {
 public:
  TwoCopies(Directory& directory, int num_regions)
      : directory_(directory), num_regions_(num_regions) {}

  // To be called before a server is killed.
  void note_kill(int server, Deadline deadline) {
    killed_[server] = directory_.servers(deadline)[server].incarnation;
  }

  // Whether each region is on two servers that run: a lineup may still name a
  // server that was killed.
  bool there(Deadline deadline) {
    const auto servers = directory_.servers(deadline);
    const auto runs = [&](const Member& member) {
      const auto record = servers.find(member.server);
      return record != servers.end() &&
          record->second.incarnation == member.incarnation &&
          killed_[member.server] != member.incarnation;
    };
    for (int region = 0; region < num_regions_; ++region) {
      const auto lineup = directory_.lineup(region, deadline);
      if (!lineup || !lineup->backup || !runs(lineup->leader) ||
          !runs(*lineup->backup)) {
        return false;
      }
    }
    return true;
  }

 private:
  Directory& directory_;
  const int num_regions_;
  std::map<int, std::uint64_t> killed_; // incarnations, by server
};

} // namespace argosy::ps
