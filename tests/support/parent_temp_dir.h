#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "argosy/common/file.h"

namespace argosy::testing {

// A temporary folder that a test shares with its ranks if these are processes:
// they run the test anew up to where it starts them, and leave it without
// destructors, so that a folder of their own would remain.
class ParentTempDir {
 public:
  ParentTempDir() {
    if (std::getenv(kVariable) == nullptr) {
      own_.emplace();
      ::setenv(kVariable, own_->path().c_str(), 1);
    }
  }
  ~ParentTempDir() {
    if (own_) {
      ::unsetenv(kVariable);
    }
  }
  ParentTempDir(const ParentTempDir&) = delete;
  ParentTempDir& operator=(const ParentTempDir&) = delete;

  static std::filesystem::path path() { return std::getenv(kVariable); }

 private:
  static constexpr const char* kVariable = "ARGOSY_TEST_FOLDER";

  std::optional<TempDir> own_; // in the parent only
};

} // namespace argosy::testing
