#include "argosy/launch/error_file.h"

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

using nlohmann::json;

// Strings and numbers both occur as timestamps.
std::string text_at(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) {
    return "";
  }
  const json& value = object[key];
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<ErrorFile> parse(const std::string& text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("message")) {
    return std::nullopt;
  }
  const json& message = document["message"];
  if (message.is_string()) { // what torchrun writes when the cause is a signal
    return ErrorFile{.message = message.get<std::string>()};
  }
  ErrorFile error{.message = text_at(message, "message")};
  if (message.is_object() && message.contains("extraInfo")) {
    const json& extra = message["extraInfo"];
    error.traceback = text_at(extra, "py_callstack");
    error.timestamp = parse_int(text_at(extra, "timestamp")).value_or(0);
  }
  return error;
}

} // namespace

std::optional<ErrorFile> read_error_file(const std::filesystem::path& path) {
  try {
    const auto text = read_file(path);
    return text ? parse(*text) : std::nullopt;
  } catch (const SystemError&) {
    return std::nullopt; // it only explains a failure that is known already
  }
}

void write_error_file(
    const std::filesystem::path& path, const ErrorFile& error) {
  const json document = {
      {"message",
       {{"message", error.message},
        {"extraInfo",
         {{"py_callstack", error.traceback},
          {"timestamp", str(error.timestamp)}}}}}};
  // Invalid UTF-8 in what() must not turn one failure into another.
  write_file(
      path, document.dump(-1, ' ', false, json::error_handler_t::replace));
}

} // namespace argosy::launch
