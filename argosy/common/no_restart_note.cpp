#include "argosy/common/no_restart_note.h"

#include "argosy/common/file.h"

namespace argosy {

namespace {

std::filesystem::path path_in(const std::filesystem::path& folder) {
  return folder / "no_restart";
}

} // namespace

void write_no_restart_note(const std::filesystem::path& folder) {
  write_file(path_in(folder), "");
}

bool has_no_restart_note(const std::filesystem::path& folder) {
  std::error_code missing;
  return std::filesystem::exists(path_in(folder), missing);
}

} // namespace argosy
