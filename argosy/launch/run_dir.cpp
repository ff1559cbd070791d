#include "argosy/launch/run_dir.h"

#include <filesystem>

#include "argosy/launch/logs.h"

namespace argosy::launch {

RunDir::RunDir(const std::string& log_dir, const std::string& run_id, bool keep)
    : path_(make_run_dir(log_dir, run_id)), keep_(keep) {}

RunDir::~RunDir() {
  if (!keep_) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

} // namespace argosy::launch
