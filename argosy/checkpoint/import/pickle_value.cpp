#include "argosy/checkpoint/import/pickle_value.h"

#include <cmath>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kMostValues = 8'000'000;
constexpr int kDeepest = 100;

nlohmann::json json_of(const PickleValue& value, int depth, int& left);

nlohmann::json json_of_items(const PickleValue& value, int depth, int& left) {
  auto json = nlohmann::json::array();
  for (const PickleValue* item : value.items) {
    json.push_back(json_of(*item, depth + 1, left));
  }
  return json;
}

nlohmann::json json_of_dict(const PickleValue& value, int depth, int& left) {
  auto json = nlohmann::json::object();
  for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
    const PickleValue& key = *value.items[i];
    const std::string name = key.is(PickleKind::kString) ? key.text
        : key.is(PickleKind::kInteger) ? std::to_string(key.integer)
                                       : str(to_string(key.kind), " ", i / 2);
    json[name] = json_of(*value.items[i + 1], depth + 1, left);
  }
  return json;
}

nlohmann::json json_of_float(double number) {
  if (std::isfinite(number)) {
    return number;
  }
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

nlohmann::json json_of_object(const PickleValue& value, int depth, int& left) {
  nlohmann::json json{{"class", value.text}};
  if (!value.items.empty()) {
    json["arguments"] = json_of_items(value, depth, left);
  }
  if (value.state != nullptr) {
    json["state"] = json_of(*value.state, depth + 1, left);
  }
  return json;
}

nlohmann::json json_of(const PickleValue& value, int depth, int& left) {
  // Texts count by their length: others may refer to one many times.
  constexpr std::size_t kTextPerValue = 256;
  const std::size_t weight = 1 + value.text.size() / kTextPerValue;
  left = weight > static_cast<std::size_t>(left)
      ? -1
      : left - static_cast<int>(weight);
  if (depth > kDeepest || left < 0) {
    throw CheckpointError(
        "[checkpoint.pickle] values that are too many or nested too deeply, or "
        "contain themselves");
  }
  switch (value.kind) {
    case PickleKind::kNone:
      return nullptr;
    case PickleKind::kBool:
      return value.integer != 0;
    case PickleKind::kInteger:
      return value.integer;
    case PickleKind::kFloat:
      return json_of_float(value.number);
    case PickleKind::kString:
    case PickleKind::kGlobal:
      return value.text;
    case PickleKind::kLong:
    case PickleKind::kBytes:
      return str(value.text.size(), " bytes");
    case PickleKind::kList:
    case PickleKind::kTuple:
    case PickleKind::kSet:
      return json_of_items(value, depth, left);
    case PickleKind::kDict:
      return json_of_dict(value, depth, left);
    case PickleKind::kObject:
      return json_of_object(value, depth, left);
    case PickleKind::kStorage:
    case PickleKind::kTensor:
      return "a tensor";
  }
  return nullptr;
}

} // namespace

std::string_view to_string(PickleKind kind) {
  constexpr std::string_view kNames[] = {
      "None",
      "bool",
      "int",
      "long int",
      "float",
      "str",
      "bytes",
      "list",
      "tuple",
      "set",
      "dict",
      "class",
      "object",
      "storage",
      "tensor"};
  return kNames[static_cast<std::size_t>(kind)];
}

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind == Kind::kObject) {
    return state == nullptr || !state->is(Kind::kDict) ? nullptr
                                                       : state->find(key);
  }
  if (kind != Kind::kDict) {
    return nullptr;
  }
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->is(Kind::kString) && items[i]->text == key) {
      return items[i + 1];
    }
  }
  return nullptr;
}

void Pickle::charge(std::size_t values) {
  charged_ += values;
  if (charged_ > kMostValues) {
    throw CheckpointError(
        str("[checkpoint.pickle] more than ", kMostValues, " values"));
  }
}

PickleValue& Pickle::add(PickleKind kind) {
  charge(1);
  PickleValue& value = values_.emplace_back();
  value.kind = kind;
  return value;
}

nlohmann::json to_json(const PickleValue& value, int limit) {
  return json_of(value, 0, limit);
}

std::string key_text(const PickleValue& key) {
  constexpr std::size_t kLongest = 1000;
  if (key.is(PickleKind::kString) && key.text.size() <= kLongest) {
    return key.text;
  }
  if (key.is(PickleKind::kInteger)) {
    return std::to_string(key.integer);
  }
  throw CheckpointError(
      str("[checkpoint.pickle] a dict with a ",
          to_string(key.kind),
          " as key above a tensor, expected an int or a str of at most ",
          kLongest,
          " characters"));
}

} // namespace argosy::checkpoint
