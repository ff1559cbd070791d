#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace argosy::world {

// A MindSpore rank table, independent of the format it was read from.
struct RankTable {
  struct Device {
    int rank = -1;
    std::string server_id;
    std::string device_id;
    std::string address; // of the server
  };

  std::vector<Device> devices; // ordered by rank, 0 to N - 1
  std::vector<std::string> notes;
};

// Parses format 1.0, the cross-cluster format of 2.6 and the old one with
// groups. Checks the status, the counts, and that ranks are 0 to N - 1. Throws
// InvalidArgument that starts with `where` and names the entry's path.
RankTable parse_rank_table(
    const nlohmann::json& table, const std::string& where);

} // namespace argosy::world
