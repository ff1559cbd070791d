#include <algorithm>
#include <set>

#include "argosy/common/error.h"
#include "argosy/world/sources/json_at.h"
#include "argosy/world/sources/rank_table.h"

namespace argosy::world {

namespace {

using Device = RankTable::Device;

// The counts are redundant and optional. One that differs from the lists shows
// that the table was truncated, or edited by hand.
void check_count(
    const JsonAt& object, const std::string& key, std::size_t found) {
  if (!object.has(key)) {
    return;
  }
  const JsonAt count = object.at(key);
  if (static_cast<std::size_t>(count.integer()) != found) {
    count.refuse(str(found, ", which is what the lists hold"));
  }
}

// In the cross-cluster format, server_id is any text, and the address separate.
std::string server_address(const JsonAt& server) {
  for (const char* key : {"server_ip", "pod_ip"}) {
    if (server.has(key) && !server.at(key).text().empty()) {
      return server.at(key).text();
    }
  }
  return server.at("server_id").text();
}

// If clusters are listed, every server must belong to exactly one.
void check_clusters(const JsonAt& root, const std::set<std::string>& servers) {
  if (!root.has("cluster_list")) {
    return;
  }
  std::set<std::string> placed;
  for (const JsonAt& cluster : root.at("cluster_list").items()) {
    for (const JsonAt& server : cluster.at("server_list").items()) {
      const JsonAt id = server.at("server_id");
      if (!servers.contains(id.text())) {
        id.refuse("a server_id of /server_list");
      }
      if (!placed.insert(id.text()).second) {
        id.refuse("a server in one cluster only");
      }
    }
  }
  if (placed.size() != servers.size()) {
    root.at("cluster_list").refuse("every server of /server_list");
  }
}

std::vector<Device> read_servers(const JsonAt& root) {
  std::vector<Device> devices;
  std::set<std::string> servers;
  for (const JsonAt& server : root.at("server_list").items()) {
    const std::string id = server.at("server_id").text();
    if (!servers.insert(id).second) {
      server.at("server_id").refuse("a server_id that is there once");
    }
    for (const JsonAt& device : server.at("device").items()) {
      devices.push_back(
          {device.at("rank_id").integer(),
           id,
           device.at("device_id").text(),
           server_address(server)});
    }
  }
  check_count(root, "server_count", servers.size());
  check_clusters(root, servers);
  return devices;
}

// An instance of the old format is one rank with its devices.
std::vector<Device> read_group(const JsonAt& group) {
  std::vector<Device> devices;
  std::set<std::string> servers;
  std::size_t num_devices = 0;
  for (const JsonAt& instance : group.at("instance_list").items()) {
    const std::string id = instance.at("server_id").text();
    const auto own = instance.at("devices").items();
    if (own.empty()) {
      instance.at("devices").refuse("a device");
    }
    servers.insert(id);
    num_devices += own.size();
    devices.push_back(
        {instance.at("rank_id").integer(),
         id,
         own.front().at("device_id").text(),
         id});
  }
  check_count(group, "instance_count", devices.size());
  check_count(group, "device_num", num_devices);
  check_count(group, "server_num", servers.size());
  return devices;
}

std::vector<Device> read_groups(const JsonAt& root) {
  std::vector<Device> devices;
  const auto groups = root.at("group_list").items();
  for (const JsonAt& group : groups) {
    for (Device& device : read_group(group)) {
      devices.push_back(std::move(device));
    }
  }
  check_count(root, "group_count", groups.size());
  return devices;
}

// After sorting, entry i must have rank i: a smaller rank is a duplicate, a
// larger one follows a gap.
void sort_and_check_ranks(
    std::vector<Device>& devices, const std::string& where) {
  ARGOSY_CHECK(!devices.empty(), "{}: no devices", where);
  std::ranges::stable_sort(devices, [](const Device& a, const Device& b) {
    return a.rank < b.rank;
  });
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const int rank = devices[i].rank;
    const int expected = static_cast<int>(i);
    ARGOSY_CHECK(
        rank == expected,
        "{}: rank_id {}, expected 0 to {} once each",
        where,
        rank < expected ? str(rank, " is there twice")
                        : str(expected, " is missing"),
        devices.size() - 1);
  }
}

// The format requires an order, on which only Ascend's libraries depend.
void note_order(RankTable& table) {
  for (std::size_t i = 1; i < table.devices.size(); ++i) {
    const Device& before = table.devices[i - 1];
    const Device& device = table.devices[i];
    if (device.server_id < before.server_id) {
      table.notes.push_back(str_format(
          "the rank table gives rank {} to server_id {} after {}: ranks should "
          "follow the order of server_id as text",
          device.rank,
          device.server_id,
          before.server_id));
      return;
    }
  }
}

} // namespace

RankTable parse_rank_table(
    const nlohmann::json& table, const std::string& where) {
  const JsonAt root(table, where);
  if (root.at("status").text() != "completed") {
    root.at("status").refuse("\"completed\"");
  }
  const bool grouped = root.has("group_list");
  RankTable result;
  result.devices = grouped ? read_groups(root) : read_servers(root);
  sort_and_check_ranks(result.devices, where);
  if (!grouped && !root.has("cluster_list")) {
    note_order(result);
  }
  return result;
}

} // namespace argosy::world
