#include "run_fragment.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "argosy/common/file.h"
#include "argosy/fleet/combination.h"
#include "argosy/fleet/strategy.h"
#include "argosy/testing/ranks.h"

namespace argosy_docs {

namespace {

// Fragments write files by relative paths.
class InEmptyFolder {
 public:
  InEmptyFolder() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  ~InEmptyFolder() { std::filesystem::current_path(before_); }
  InEmptyFolder(const InEmptyFolder&) = delete;
  InEmptyFolder& operator=(const InEmptyFolder&) = delete;

 private:
  const std::filesystem::path before_;
  argosy::TempDir folder_;
};

} // namespace

void run_fragment(const char* where, int num_ranks, void (*fragment)()) {
  SCOPED_TRACE(where);
  const InEmptyFolder folder;
  at::set_num_threads(1);
  EXPECT_NO_THROW(argosy::testing::run_ranks(
      num_ranks, [&](argosy::World&) { fragment(); }));
}

void check_strategy(const char* where, const char* json) {
  SCOPED_TRACE(where);
  EXPECT_NO_THROW(argosy::fleet::check_combination(
      argosy::fleet::DistributedStrategy::from_json(json)));
}

} // namespace argosy_docs
