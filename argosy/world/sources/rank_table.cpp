// MindSpore's rank table: a file lists every rank, variables tell which is
// ours.

#include "argosy/world/sources/rank_table.h"

#include "argosy/common/error.h"
#include "argosy/world/sources/json_at.h"
#include "argosy/world/sources/source.h"
#include "argosy/world/sources/values.h"

namespace argosy::world {

namespace {

constexpr char kFile[] = "RANK_TABLE_FILE";
constexpr int kRankTablePort = 8118; // the port of MindSpore's scheduler

bool is_own(
    const RankTable::Device& device,
    const std::string& device_id,
    const std::string& server) {
  return device.device_id == device_id &&
      (server.empty() || device.server_id == server ||
       device.address == server);
}

// Without RANK_ID: the device with our id, on our server if there are several.
int rank_by_device(const RankTable& table, const Environment& env) {
  const std::string server = env.get("SERVER_ID", env.get("POD_IP", ""));
  std::vector<int> ranks;
  for (const auto& device : table.devices) {
    if (is_own(device, required(env, "DEVICE_ID"), server)) {
      ranks.push_back(device.rank);
    }
  }
  ARGOSY_CHECK(
      ranks.size() == 1,
      "[world.adopt] {} matches {} entries of {}, expected one: set RANK_ID",
      shown(env, {"DEVICE_ID", "SERVER_ID", "POD_IP"}),
      ranks.size(),
      shown(env, {kFile}));
  return ranks.front();
}

int own_rank(const RankTable& table, const Environment& env) {
  const int size = static_cast<int>(table.devices.size());
  if (!env.has("RANK_ID")) {
    return rank_by_device(table, env);
  }
  const int rank = required_int(env, "RANK_ID", 0);
  ARGOSY_CHECK(
      rank < size,
      "[world.adopt] RANK_ID={} is not below the {} ranks of {}",
      rank,
      size,
      shown(env, {kFile}));
  return rank;
}

void check_size(const LaunchInfo& info, const Environment& env) {
  const auto size = find_int(env, "RANK_SIZE", 1);
  ARGOSY_CHECK(
      !size || *size == info.size,
      "[world.adopt] RANK_SIZE={} but {} has {} ranks",
      size.value_or(0),
      shown(env, {kFile}),
      info.size);
}

Claim read_rank_table(const Context& context) {
  const Environment& env = context.env;
  const std::string path = required(env, kFile);
  const RankTable table = parse_rank_table(
      read_json_file(path, kFile), str("[world.adopt] ", kFile, "=", path));
  LaunchInfo info;
  info.size = static_cast<int>(table.devices.size());
  info.num_workers = info.size;
  info.rank = own_rank(table, env);
  check_size(info, env);
  std::vector<std::string> hosts;
  for (const auto& device : table.devices) {
    hosts.push_back(device.server_id);
  }
  set_local_from(info, hosts);
  set_store(info, env, Endpoint{table.devices.front().address, kRankTablePort});
  return {info, table.notes};
}

// msrun may pass the file on and let the scheduler assign ranks.
std::string disown_rank_table(const Environment& env) {
  const bool later = env.has("MS_ROLE") && !env.has("RANK_ID");
  return later ? "the scheduler gives the rank, see mindspore" : "";
}

} // namespace

Source rank_table_source() {
  return {
      .name = "rank-table",
      .marks = {kFile},
      .needs = {kFile, "RANK_ID|DEVICE_ID"},
      .read = read_rank_table,
      .disowned = disown_rank_table};
}

} // namespace argosy::world
