#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace argosy::world {

// A MindSpore rank table, whichever of its formats it was written in.
struct RankTable {
  struct Device {
    int rank = -1;
    std::string server_id;
    std::string device_id;
    std::string address; // of the server
  };

  std::vector<Device> devices; // by rank, 0 to N - 1 without gaps
  std::vector<std::string> notes;
};

// Reads format 1.0, the cross-cluster one of 2.6 and the old one with groups.
// Checks the status, that ranks are 0 to N - 1 once each, and the counts.
// Throws InvalidArgument that starts with `where` and names the entry's path.
RankTable parse_rank_table(const nlohmann::json& table, std::string where);

} // namespace argosy::world
