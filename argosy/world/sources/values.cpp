#include "argosy/world/sources/values.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::world {

std::string shown(
    const Environment& env, const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (const auto value = env.find(name)) {
      // Truncates long lists of endpoints; their start identifies them.
      const bool is_long = value->size() > 60;
      parts.push_back(
          str(name, "=", is_long ? value->substr(0, 57) + "..." : *value));
    }
  }
  return join(parts, " ");
}

std::optional<int> find_int(
    const Environment& env, std::string_view name, int lowest, int highest) {
  const auto text = env.find(name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = parse_int(trim(*text));
  ARGOSY_CHECK(
      value && *value >= lowest && *value <= highest,
      "[world.adopt] {}={} is not an integer {}",
      name,
      *text,
      highest == 2147483647 ? str(">= ", lowest)
                            : str("in [", lowest, ", ", highest, "]"));
  return static_cast<int>(*value);
}

std::string required(const Environment& env, std::string_view name) {
  const auto value = env.find(name);
  ARGOSY_CHECK(value, "[world.adopt] {} is not set", name);
  return *value;
}

int required_int(
    const Environment& env, std::string_view name, int lowest, int highest) {
  required(env, name);
  return *find_int(env, name, lowest, highest);
}

std::optional<int> find_port(const Environment& env, std::string_view name) {
  return find_int(env, name, 1, 65535);
}

// Ports in [15000, 32000) are below Linux's default range of ephemeral ports
// (32768 and above), so that no outgoing connection holds one by chance.
std::uint16_t job_port(long long seed) {
  return static_cast<std::uint16_t>(15000 + seed % 17000);
}

std::vector<Endpoint> endpoints(const Environment& env, std::string_view name) {
  std::vector<Endpoint> list;
  for (const std::string& part : split(required(env, name), ',')) {
    list.push_back(parse_endpoint(trim(part), str("[world.adopt] ", name)));
  }
  return list;
}

Endpoint pod_endpoint(const Environment& env) {
  const std::string host = required(env, "POD_IP");
  const int port = required_int(env, "PADDLE_PORT", 1, 65535);
  return {host, static_cast<std::uint16_t>(port)};
}

int index_of(
    const Endpoint& endpoint,
    std::string_view what,
    const std::vector<Endpoint>& list,
    std::string_view list_name) {
  const auto found = std::ranges::find(list, endpoint);
  if (found != list.end()) {
    return static_cast<int>(found - list.begin());
  }
  std::vector<std::string> texts;
  for (const Endpoint& other : list) {
    texts.push_back(other.text());
  }
  throw InvalidArgument(str_format(
      "[world.adopt] {}={} is not in {}={}",
      what,
      endpoint.text(),
      list_name,
      join(texts, ",")));
}

void set_rank(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name) {
  info.size = required_int(env, size_name, 1);
  info.rank = required_int(env, rank_name, 0);
  info.num_workers = info.size;
  ARGOSY_CHECK(
      info.rank < info.size,
      "[world.adopt] {}={} is not below {}={}",
      rank_name,
      info.rank,
      size_name,
      info.size);
}

namespace {

// Launchers place ranks in blocks (node 0 has ranks 0, 1, ...) or in turn (rank
// r is on node r modulo the number of nodes). The local rank shows which. With
// any other placement, or nodes of different sizes, the ranks find out when
// they meet (find_local_ranks()).
void set_nodes(LaunchInfo& info) {
  info.knows_local = info.size % info.local_size == 0;
  if (!info.knows_local) {
    return;
  }
  info.num_nodes = info.size / info.local_size;
  const bool in_blocks = info.rank % info.local_size == info.local_rank;
  const bool in_turn = info.rank / info.num_nodes == info.local_rank;
  info.knows_local = in_blocks || in_turn;
  info.node_rank =
      in_blocks ? info.rank / info.local_size : info.rank % info.num_nodes;
}

} // namespace

void set_local_unknown(LaunchInfo& info) {
  info.knows_local = info.size == 1;
  info.num_nodes = info.size;
  info.node_rank = std::max(info.rank, 0);
}

void set_local(
    LaunchInfo& info,
    const Environment& env,
    std::string_view rank_name,
    std::string_view size_name) {
  const auto rank = find_int(env, rank_name, 0);
  const auto size = find_int(env, size_name, 1);
  info.local_rank = rank.value_or(0);
  info.local_size = size.value_or(info.local_rank + 1);
  if (!rank || !size) {
    set_local_unknown(info);
    return;
  }
  ARGOSY_CHECK(
      *rank < *size,
      "[world.adopt] {} is not below {}",
      shown(env, {std::string(rank_name)}),
      shown(env, {std::string(size_name)}));
  ARGOSY_CHECK(
      *size <= info.size,
      "[world.adopt] {} is more than the {} ranks there are",
      shown(env, {std::string(size_name)}),
      info.size);
  set_nodes(info);
}

void set_local_from(LaunchInfo& info, const std::vector<std::string>& hosts) {
  const std::string& own = hosts[info.rank];
  std::vector<std::string> nodes; // in order of their first rank
  info.local_size = 0;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::ranges::find(nodes, hosts[rank]) == nodes.end()) {
      nodes.push_back(hosts[rank]);
    }
    if (static_cast<int>(rank) == info.rank) {
      info.local_rank = info.local_size;
    }
    info.local_size += hosts[rank] == own ? 1 : 0;
  }
  info.num_nodes = static_cast<int>(nodes.size());
  info.node_rank =
      static_cast<int>(std::ranges::find(nodes, own) - nodes.begin());
  info.knows_local = true;
}

void set_local_from(LaunchInfo& info, const std::vector<Endpoint>& ranks) {
  std::vector<std::string> hosts;
  for (const Endpoint& endpoint : ranks) {
    hosts.push_back(endpoint.host);
  }
  set_local_from(info, hosts);
}

void set_store(
    LaunchInfo& info,
    const Environment& env,
    const std::optional<Endpoint>& natural) {
  const auto port = find_port(env, "MASTER_PORT");
  const bool alone = info.size == 1 && info.num_servers == 0;
  if (alone && info.role == Role::Worker) {
    return;
  }
  info.serves_store = info.rank == 0;
  if (const auto url = env.find("ARGOSY_STORE")) {
    info.store_url = *url;
    // Other stores have a server of their own, or need none.
    const bool servable =
        url->starts_with("tcp://") || url->starts_with("c10d://");
    info.serves_store = info.serves_store && servable &&
        url->find("serve=no") == std::string::npos;
    return;
  }
  Endpoint place = natural.value_or(Endpoint{});
  if (const auto host = env.find("MASTER_ADDR")) {
    place = {*host, static_cast<std::uint16_t>(port.value_or(kDefaultPort))};
  } else if (port) {
    place.port = static_cast<std::uint16_t>(*port);
  }
  info.serves_store = info.serves_store && !place.host.empty();
  info.store_url = place.host.empty() ? "" : str("tcp://", place.text());
}

void check_store(const LaunchInfo& info, std::string_view wanted) {
  ARGOSY_CHECK(
      info.size == 1 || !info.store_url.empty() ||
          info.address_exchange != AddressExchange::None,
      "[world.adopt] {} ranks have no rendezvous address: set {} or "
      "ARGOSY_STORE",
      info.size,
      wanted);
}

} // namespace argosy::world
