#include "argosy/pipeline/schedule_json.h"

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/json.h"
#include "argosy/pipeline/step_text.h"
#include "argosy/pipeline/verify.h"

namespace argosy::pipeline {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kRoundName = "round";
constexpr const char* kVName = "v";

// Reads members of an object; errors name the member that is missing or wrong.
class Reader {
 public:
  Reader(const json& object, std::string where)
      : object_(object), where_(std::move(where)) {
    ARGOSY_CHECK(object.is_object(), "{}: expected an object", where_);
  }

  bool has(const char* name) const { return object_.contains(name); }

  const json& member(const char* name) const {
    ARGOSY_CHECK(has(name), "{}: no \"{}\"", where_, name);
    return object_[name];
  }

  double number(const char* name) const {
    const json& value = member(name);
    ARGOSY_CHECK(
        value.is_number(),
        "{}: \"{}\" is {}, expected a number",
        where_,
        name,
        value);
    return value.get<double>();
  }

  double number(const char* name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }

  int count(const char* name) const {
    const json& value = member(name);
    ARGOSY_CHECK(
        value.is_number_integer() && value >= 1 && value <= kMostCount,
        "{}: \"{}\" is {}, expected 1 to {}",
        where_,
        name,
        value,
        kMostCount);
    return value.get<int>();
  }

  std::string text(const char* name) const {
    const json& value = member(name);
    ARGOSY_CHECK(
        value.is_string(),
        "{}: \"{}\" is {}, expected a text",
        where_,
        name,
        value);
    return value.get<std::string>();
  }

  const json& list(const char* name) const {
    const json& value = member(name);
    ARGOSY_CHECK(value.is_array(), "{}: \"{}\" is no list", where_, name);
    return value;
  }

 private:
  // Refuses nonsense in single counts; check_shape() limits their product.
  static constexpr int kMostCount = 10'000;

  const json& object_;
  const std::string where_;
};

PartOrder parse_order(const std::string& name, const std::string& where) {
  ARGOSY_CHECK(
      name == kRoundName || name == kVName,
      "{}: \"order\" is \"{}\", expected \"round\" or \"v\"",
      where,
      name);
  return name == kVName ? PartOrder::kV : PartOrder::kRound;
}

} // namespace

std::string to_json(const Schedule& schedule) {
  ordered_json document = {
      {"name", schedule.name},
      {"stages", schedule.stages},
      {"microbatches", schedule.microbatches},
      {"chunks", schedule.chunks},
      {"order", schedule.order == PartOrder::kV ? kVName : kRoundName},
      {"steps", ordered_json::array()},
  };
  for (const auto& steps : schedule.steps) {
    document["steps"].push_back(steps_text(steps));
  }
  return document.dump(2) + "\n";
}

Schedule schedule_from_json(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const Reader reader(document, where);
  Schedule schedule;
  schedule.name = reader.text("name");
  schedule.stages = reader.count("stages");
  schedule.microbatches = reader.count("microbatches");
  schedule.chunks = reader.count("chunks");
  schedule.order = parse_order(reader.text("order"), where);
  for (const json& steps : reader.list("steps")) {
    ARGOSY_CHECK(
        steps.is_string(), "{}: steps {}, expected a text", where, steps);
    schedule.steps.push_back(parse_steps(steps.get<std::string>()));
  }
  // Files may be written by hand; the engine relies on a schedule that ends.
  verify(schedule);
  return schedule;
}

std::string to_json(const PartCosts& costs) {
  ordered_json document = {
      {"message", costs.message},
      {"kept_after_input", costs.kept_after_input},
      {"parts", ordered_json::array()},
  };
  for (std::size_t i = 0; i < costs.times.size(); ++i) {
    const auto [forward, input, weight] = costs.times[i];
    ordered_json part = {
        {"forward", forward}, {"input", input}, {"weight", weight}};
    if (!costs.memory.empty()) {
      part["memory"] = costs.memory[i];
    }
    document["parts"].push_back(part);
  }
  return document.dump(2) + "\n";
}

PartCosts costs_from_json(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const Reader reader(document, where);
  PartCosts costs;
  costs.message = reader.number("message", 0);
  // By default the backward of inputs frees nothing, the cautious guess.
  costs.kept_after_input = reader.number("kept_after_input", 1);
  for (const json& part : reader.list("parts")) {
    const Reader own(part, str(where, ": part ", costs.times.size()));
    costs.times.push_back(
        {own.number("forward"), own.number("input"), own.number("weight")});
    if (own.has("memory")) {
      costs.memory.push_back(own.number("memory"));
    }
  }
  ARGOSY_CHECK(
      costs.memory.empty() || costs.memory.size() == costs.times.size(),
      "{}: some parts have \"memory\" and others not",
      where);
  check_costs(costs, static_cast<int>(costs.times.size()));
  return costs;
}

} // namespace argosy::pipeline
