#include "argosy/launch/node_record.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

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

NodeAssignment assignment_of(const Arrivals& members, int arrival) {
  NodeAssignment assignment;
  for (const int each : order_nodes(members)) {
    const NodeRecord& record = members.at(each);
    if (assignment.nodes.empty()) {
      assignment.master = {record.node.address, record.master_port};
    }
    if (each == arrival) {
      assignment.node_rank = assignment.num_nodes();
    }
    assignment.nodes.push_back(record.node);
  }
  return assignment;
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

bool may_be_restarted(const Arrivals& arrivals) {
  std::map<int, std::string> owners;
  for (const auto& [arrival, record] : arrivals) {
    if (record.requested_rank) {
      const auto [owner, is_new] =
          owners.emplace(*record.requested_rank, label(record.node));
      if (!is_new && owner->second == label(record.node)) {
        return true;
      }
    }
  }
  return false;
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

Failure launcher_failure(const std::string& host, std::string message) {
  return {
      .host = host,
      .role = "launcher",
      .status = {.exit_code = 1},
      .time = std::chrono::system_clock::now(),
      .message = std::move(message)};
}

namespace {

using nlohmann::json;

constexpr int kMostRecorded = 1 << 20; // of a job, far more than there are

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

void check_range(
    bool holds, const std::string& what, const std::string& value) {
  if (!holds) {
    throw StoreError(
        str("[launch.rendezvous] a node has another version: ",
            what,
            " is ",
            value));
  }
}

// Numbers of another size would be cut off silently.
int read_int(const json& fields, const char* name, int lowest, int highest) {
  const json& field = fields.at(name);
  const bool fits = field.is_number_integer() &&
      (!field.is_number_unsigned() ||
       std::in_range<std::int64_t>(field.get<std::uint64_t>()));
  const auto value = fits ? field.get<std::int64_t>() : 0;
  check_range(
      fits && value >= lowest && value <= highest,
      name,
      field.is_number() ? field.dump() : field.type_name());
  return static_cast<int>(value);
}

int read_int(const json& fields, const char* name) {
  using Limits = std::numeric_limits<int>;
  return read_int(fields, name, Limits::min(), Limits::max());
}

NodeRecord read_record(const json& fields) {
  NodeRecord record;
  record.node = {
      .host = fields.at("host"),
      .address = fields.at("address"),
      .num_servers = read_int(fields, "num_servers", 0, kMostRecorded),
      .num_workers = read_int(fields, "num_workers", 0, kMostRecorded),
      .ports = fields.at("ports")};
  const int rank = read_int(fields, "requested_rank", -1, kMostRecorded);
  if (rank >= 0) {
    record.requested_rank = rank;
  }
  record.min_nodes = read_int(fields, "min_nodes", 0, kMostRecorded);
  record.max_nodes = read_int(fields, "max_nodes", 0, kMostRecorded);
  record.master_port =
      static_cast<std::uint16_t>(read_int(fields, "master_port", 0, 65'535));
  return record;
}

// As milliseconds since 1970. A clock counts nanoseconds, which would overflow.
std::chrono::system_clock::time_point read_time(const json& fields) {
  constexpr std::int64_t kFar = 9'000'000'000'000; // the year 2255
  const auto ms = fields.at("time_ms").get<std::int64_t>();
  return std::chrono::system_clock::time_point(
      std::chrono::milliseconds(std::clamp<std::int64_t>(ms, 0, kFar)));
}

Failure read_failure(const json& fields) {
  return {
      .host = fields.at("host"),
      .role = fields.at("role"),
      .rank = read_int(fields, "rank"),
      .local_rank = read_int(fields, "local_rank"),
      .pid = read_int(fields, "pid"),
      .status =
          {.exit_code = read_int(fields, "exit_code"),
           .signal = read_int(fields, "signal")},
      .time = read_time(fields),
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
    for (const auto& [key, fields] : all.items()) {
      const auto arrival = parse_int(key);
      check_range(arrival && std::in_range<int>(*arrival), "an arrival", key);
      arrivals[static_cast<int>(*arrival)] = read_record(fields);
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
