#include "argosy/comm/flight/record_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "argosy/common/error.h"

namespace argosy::comm::flight {

using nlohmann::json;

namespace {

constexpr int kVersion = 1;
constexpr int kNumStates = static_cast<int>(State::Failed) + 1;

constexpr int kMostRanks = 1 << 20;

// A number of the file: others would be cut off silently, or make whoever
// reads the record list billions of ranks.
int int_from(const json& number, int lowest, int highest) {
  const bool fits =
      number.is_number_integer() && number >= lowest && number <= highest;
  ARGOSY_CHECK(
      fits,
      "a number is {}, expected {} to {}",
      number.is_number() ? number.dump() : number.type_name(),
      lowest,
      highest);
  return number.get<int>();
}

int rank_from(const json& number) {
  return int_from(number, 0, kMostRanks - 1);
}

template <typename Enum>
Enum named(const json& name, int num_values) {
  for (int i = 0; i < num_values; ++i) {
    if (to_string(static_cast<Enum>(i)) == name.get<std::string>()) {
      return static_cast<Enum>(i);
    }
  }
  throw InvalidArgument(str("unknown name ", name.dump()));
}

json side_json(const Side& side) {
  return {
      {"tensors", side.num_tensors},
      {"num_dims", side.num_dims},
      {"dims", side.kept_dims()},
      {"elements", side.elements}};
}

Side side_from(const json& object) {
  Side side{
      .num_tensors = object.at("tensors"),
      .num_dims = object.at("num_dims"),
      .elements = object.at("elements")};
  const std::vector<std::int64_t> dims = object.at("dims");
  std::copy_n(
      dims.begin(), std::min(dims.size(), Side::kMostDims), side.dims.begin());
  return side;
}

json call_json(const Call& call) {
  return {
      {"op", to_string(call.kind)},
      {"dtype", to_string(call.dtype)},
      {"reduce", to_string(call.reduce)},
      {is_pairwise(call.kind) ? "peer" : "root", call.root},
      {"in", side_json(call.in)},
      {"out", side_json(call.out)},
      {"bytes", call.bytes}};
}

Call call_from(const json& object) {
  return {
      .kind = named<OpKind>(object.at("op"), static_cast<int>(kNumOpKinds)),
      .dtype = named<DType>(object.at("dtype"), kNumDTypes),
      .reduce = named<ReduceOp>(object.at("reduce"), kNumReduceOps),
      .root = object.contains("peer") ? object["peer"] : object.at("root"),
      .in = side_from(object.at("in")),
      .out = side_from(object.at("out")),
      .bytes = object.at("bytes"),
      .label = OpLabel(object.value("label", ""))};
}

json operation_json(const Operation& operation) {
  json object = call_json(operation.call);
  object.update(
      {{"number", operation.number},
       {"group", operation.group},
       {"sequence", operation.sequence},
       {"state", to_string(operation.state)},
       {"issued_us", operation.issued_us},
       {"started_us", operation.started_us},
       {"ended_us", operation.ended_us}});
  if (!operation.call.label.empty()) {
    object["label"] = operation.call.label.text();
  }
  if (!operation.error.empty()) {
    object["error"] = operation.error;
  }
  return object;
}

Operation operation_from(const json& object) {
  return {
      .number = object.at("number"),
      .group = object.at("group"),
      .sequence = object.at("sequence"),
      .call = call_from(object),
      .state = named<State>(object.at("state"), kNumStates),
      .issued_us = object.at("issued_us"),
      .started_us = object.at("started_us"),
      .ended_us = object.at("ended_us"),
      .error = object.value("error", "")};
}

json group_json(const GroupCounts& group) {
  json messages = json::array();
  for (const GroupCounts::Messages& with : group.messages) {
    messages.push_back(
        {{"peer", with.peer},
         {"sent", with.sent},
         {"received", with.received}});
  }
  return {
      {"id", group.id},
      {"ranks", group.ranks},
      {"collectives", group.collectives},
      {"messages", messages}};
}

GroupCounts group_from(const json& object) {
  GroupCounts group{
      .id = object.at("id"), .collectives = object.at("collectives")};
  for (const json& rank : object.at("ranks")) {
    group.ranks.push_back(rank_from(rank));
  }
  for (const json& with : object.at("messages")) {
    group.messages.push_back(
        {.peer = rank_from(with.at("peer")),
         .sent = with.at("sent"),
         .received = with.at("received")});
  }
  return group;
}

Record record_from(const json& document) {
  const int version = document.at("version");
  ARGOSY_CHECK(
      version == kVersion, "version {}, expected {}", version, kVersion);
  Record record{
      .rank = rank_from(document.at("rank")),
      .world_size = int_from(document.at("world_size"), 1, kMostRanks),
      .restart_count = document.at("restart_count"),
      .run_id = document.at("run_id"),
      .host = document.at("host"),
      .pid = document.at("pid"),
      .reason = document.at("reason"),
      .time_us = document.at("time_us")};
  for (const json& group : document.at("groups")) {
    record.groups.push_back(group_from(group));
  }
  for (const json& operation : document.at("operations")) {
    record.operations.push_back(operation_from(operation));
  }
  return record;
}

} // namespace

std::string to_json(const Record& record) {
  json document = {
      {"version", kVersion},
      {"rank", record.rank},
      {"world_size", record.world_size},
      {"restart_count", record.restart_count},
      {"run_id", record.run_id},
      {"host", record.host},
      {"pid", record.pid},
      {"reason", record.reason},
      {"time_us", record.time_us},
      {"groups", json::array()},
      {"operations", json::array()}};
  for (const GroupCounts& group : record.groups) {
    document["groups"].push_back(group_json(group));
  }
  for (const Operation& operation : record.operations) {
    document["operations"].push_back(operation_json(operation));
  }
  // Texts of errors may hold any bytes.
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

Record parse_record(std::string_view text, std::string_view what) {
  try {
    return record_from(json::parse(text));
  } catch (const std::exception& error) {
    throw InvalidArgument(
        str("[flight.read] ", what, " is no flight record: ", error.what()));
  }
}

} // namespace argosy::comm::flight
