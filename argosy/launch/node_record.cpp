#include "argosy/launch/node_record.h"

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::launch {

// Nodes that ask for a rank get it; the others fill the gaps in the order in
// which they came. Every node computes this from the same closed list, so all
// agree without another message. Requested ranks may leave gaps, which vanish
// here: the result lists arrivals, and a node's rank is its index.
std::vector<int> order_nodes(const Arrivals& arrivals) {
  std::map<int, int> by_rank;
  for (const auto& [arrival, record] : arrivals) {
    if (record.requested_rank) {
      by_rank.emplace(*record.requested_rank, arrival);
    }
  }
  int next = 0;
  for (const auto& [arrival, record] : arrivals) {
    if (!record.requested_rank) {
      while (by_rank.count(next) > 0) {
        ++next;
      }
      by_rank.emplace(next, arrival);
    }
  }
  std::vector<int> order;
  for (const auto& [rank, arrival] : by_rank) {
    order.push_back(arrival);
  }
  return order;
}

namespace {

// With the address, because all hosts may be called localhost.
std::string label(const Node& node) {
  return str(node.host, " (", node.address, ")");
}

bool same_size(const NodeRecord& a, const NodeRecord& b) {
  return a.min_nodes == b.min_nodes && a.max_nodes == b.max_nodes;
}

std::string size_conflict(const NodeRecord& a, const NodeRecord& b) {
  return str_format(
      "--nnodes differs: {} expects {} nodes, {} {}",
      label(a.node),
      a.max_nodes,
      label(b.node),
      b.max_nodes);
}

} // namespace

std::optional<std::string> find_conflict(const Arrivals& arrivals) {
  std::map<int, std::string> owners;
  for (const auto& [arrival, record] : arrivals) {
    // Comparing each with the first suffices, since equality is transitive.
    const NodeRecord& first = arrivals.begin()->second;
    if (!same_size(first, record)) {
      return size_conflict(first, record);
    }
    if (!record.requested_rank) {
      continue;
    }
    const int rank = *record.requested_rank;
    const auto [owner, is_new] = owners.emplace(rank, label(record.node));
    if (!is_new) {
      return str_format(
          "--node-rank {} is given to two nodes: {} and {}",
          rank,
          owner->second,
          label(record.node));
    }
  }
  return std::nullopt;
}

std::string missing_nodes_text(
    const Arrivals& arrivals, int expected, const std::string& limit) {
  std::vector<std::string> hosts;
  std::map<int, bool> taken;
  bool all_ask = true;
  for (const auto& [arrival, record] : arrivals) {
    hosts.push_back(label(record.node));
    // If some nodes take any rank, no rank can be called missing.
    all_ask = all_ask && record.requested_rank.has_value();
    taken[record.requested_rank.value_or(-1)] = true;
  }
  std::vector<int> missing;
  for (int rank = 0; rank < expected && all_ask; ++rank) {
    if (!taken[rank]) {
      missing.push_back(rank);
    }
  }
  return str(
      arrivals.size(),
      " of ",
      expected,
      " nodes came within ",
      limit,
      ": ",
      join(hosts, ", "),
      missing.empty() ? "" : "; missing node ranks: ",
      ranges_text(missing));
}

namespace {

using nlohmann::json;

json describe(const NodeRecord& record) {
  return {
      {"host", record.node.host},
      {"address", record.node.address},
      {"num_servers", record.node.num_servers},
      {"num_workers", record.node.num_workers},
      {"ports", record.node.ports},
      {"requested_rank", record.requested_rank.value_or(-1)},
      {"min_nodes", record.min_nodes},
      {"max_nodes", record.max_nodes},
      {"master_port", record.master_port}};
}

NodeRecord read_record(const json& fields) {
  NodeRecord record;
  record.node = {
      .host = fields.at("host"),
      .address = fields.at("address"),
      .num_servers = fields.at("num_servers"),
      .num_workers = fields.at("num_workers"),
      .ports = fields.at("ports")};
  if (const int rank = fields.at("requested_rank"); rank >= 0) {
    record.requested_rank = rank;
  }
  record.min_nodes = fields.at("min_nodes");
  record.max_nodes = fields.at("max_nodes");
  record.master_port = fields.at("master_port");
  return record;
}

Failure read_failure(const json& fields) {
  return {
      .host = fields.at("host"),
      .role = fields.at("role"),
      .rank = fields.at("rank"),
      .local_rank = fields.at("local_rank"),
      .pid = fields.at("pid"),
      .status =
          {.exit_code = fields.at("exit_code"), .signal = fields.at("signal")},
      .time = std::chrono::system_clock::time_point(
          std::chrono::milliseconds(fields.at("time_ms").get<long long>())),
      .error_file = fields.at("error_file"),
      .message = fields.at("message"),
      .output_tail = fields.at("output_tail")};
}

template <typename Reader>
auto parse_with(const std::string& text, Reader read) {
  try {
    return read(json::parse(text));
  } catch (const json::exception& error) {
    throw StoreError(
        str("[launch.rendezvous] a node has another version: ", error.what()));
  }
}

// Workers may print any bytes; JSON needs valid UTF-8.
std::string dump(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

std::string to_json(const NodeRecord& record) {
  return dump(describe(record));
}

NodeRecord parse_node_record(const std::string& text) {
  return parse_with(text, read_record);
}

std::string to_json(const Arrivals& arrivals) {
  json all = json::object();
  for (const auto& [arrival, record] : arrivals) {
    all[str(arrival)] = describe(record);
  }
  return dump(all);
}

Arrivals parse_arrivals(const std::string& text) {
  return parse_with(text, [](const json& all) {
    Arrivals arrivals;
    for (const auto& [arrival, fields] : all.items()) {
      arrivals[std::stoi(arrival)] = read_record(fields);
    }
    return arrivals;
  });
}

std::string to_json(const Failure& failure) {
  const auto since_epoch = failure.time.time_since_epoch();
  return dump(
      {{"host", failure.host},
       {"role", failure.role},
       {"rank", failure.rank},
       {"local_rank", failure.local_rank},
       {"pid", failure.pid},
       {"exit_code", failure.status.exit_code},
       {"signal", failure.status.signal},
       {"time_ms",
        std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch)
            .count()},
       {"error_file", failure.error_file},
       {"message", failure.message},
       {"output_tail", failure.output_tail}});
}

Failure parse_failure(const std::string& text) {
  return parse_with(text, read_failure);
}

} // namespace argosy::launch
