#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "argosy/online/schedule.h"

namespace argosy::online {

// A checkpoint that is complete, and where training goes on from it.
struct DoneRecord {
  std::string checkpoint; // path below the output folder
  Progress progress{};
  std::optional<PlannedExport> exported = {}; // what was saved for serving

  bool operator==(const DoneRecord&) const = default;
};

// Lines of JSON, one for each checkpoint. A checkpoint exists when its line
// does: what a job has trained behind the last line, it trains again when it
// starts again.
class DoneFile {
 public:
  // "donefile" in that folder.
  explicit DoneFile(const std::filesystem::path& folder);

  // Empty if there is no file. Throws CheckpointError, with the line.
  std::vector<DoneRecord> read() const;
  // Replaces the file: readers see the old or the new one.
  void append(const DoneRecord& record) const;

 private:
  const std::filesystem::path path_;
};

std::string to_json(const DoneRecord& record);
// Throws InvalidArgument.
DoneRecord done_record_of_json(const std::string& text);

} // namespace argosy::online
