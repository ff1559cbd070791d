#include "argosy/online/done_file.h"

#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/json.h"
#include "argosy/common/text.h"

namespace argosy::online {

std::string to_json(const DoneRecord& record) {
  nlohmann::ordered_json json{
      {"day", record.progress.day},
      {"pass", record.progress.pass},
      {"checkpoint", record.checkpoint},
      {"num_exports", record.progress.num_exports},
      {"last_file", record.progress.last_file}};
  if (record.exported) {
    json["export"] = {
        {"number", record.exported->number},
        {"is_base", record.exported->is_base},
        {"path", record.exported->path}};
  }
  return json.dump();
}

DoneRecord done_record_of_json(const std::string& text) {
  const nlohmann::json json = parse_json(text, "[online.done_file]");
  try {
    DoneRecord record{
        .checkpoint = json.at("checkpoint"),
        .progress = {
            json.at("day"),
            json.at("pass"),
            json.at("num_exports"),
            json.at("last_file")}};
    if (json.contains("export")) {
      const auto& made = json.at("export");
      record.exported = {
          made.at("number"), made.at("is_base"), made.at("path")};
    }
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(str("[online.done_file] ", error.what()));
  }
}

DoneFile::DoneFile(const std::filesystem::path& folder)
    : path_(folder / "donefile") {}

std::vector<DoneRecord> DoneFile::read() const {
  std::vector<DoneRecord> records;
  const std::string text = read_file(path_).value_or("");
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) {
      continue;
    }
    try {
      records.push_back(done_record_of_json(line));
    } catch (const InvalidArgument& error) {
      throw CheckpointError(str_format(
          "[online.done_file] {}, line {}: {}",
          path_.string(),
          records.size() + 1,
          error.what()));
    }
  }
  return records;
}

void DoneFile::append(const DoneRecord& record) const {
  write_file(path_, read_file(path_).value_or("") + to_json(record) + "\n");
}

} // namespace argosy::online
