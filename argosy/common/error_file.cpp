#include "argosy/common/error_file.h"

#include <nlohmann/json.hpp>

#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy {

using nlohmann::json;

namespace {

// Some workers write numbers where torch writes strings.
std::string text_at(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) {
    return "";
  }
  const json& value = object[key];
  if (value.is_string()) {
    return value.get<std::string>();
  }
  return value.is_number() ? value.dump() : "";
}

} // namespace

void write_error_file(
    const std::filesystem::path& path, const ErrorReport& report) {
  json extra = {
      {"py_callstack", report.call_stack},
      {"timestamp", std::to_string(report.timestamp)}};
  if (report.timestamp_ns != 0) {
    extra["timestamp_ns"] = std::to_string(report.timestamp_ns);
  }
  const json content = {
      {"message", {{"message", report.message}, {"extraInfo", extra}}}};
  write_file(
      path, content.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::optional<ErrorReport> read_error_file(const std::filesystem::path& path) {
  const auto content = read_file(path);
  const json parsed =
      content ? json::parse(*content, nullptr, false) : json::object();
  if (!parsed.is_object() || !parsed.contains("message")) {
    return std::nullopt;
  }
  const json& message = parsed["message"];
  // Torchrun's form for programs without a call stack.
  if (message.is_string()) {
    return ErrorReport{.message = message.get<std::string>()};
  }
  const json::json_pointer text("/message");
  if (!message.is_object() || !message.contains(text) ||
      !message[text].is_string()) {
    return std::nullopt;
  }
  ErrorReport report{.message = message[text].get<std::string>()};
  const json extra = message.value("extraInfo", json::object());
  report.call_stack = text_at(extra, "py_callstack");
  report.timestamp = parse_int(text_at(extra, "timestamp")).value_or(0);
  report.timestamp_ns = parse_int(text_at(extra, "timestamp_ns")).value_or(0);
  return report;
}

} // namespace argosy
