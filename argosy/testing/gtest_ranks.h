#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/world/init.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"

namespace argosy::testing {

namespace detail {

// Ranks on which expectations failed, as files in a folder of the parent. The
// error of such a rank may not be the first: a test that kills a rank hears of
// that one alone.
class FailedRanks {
 public:
  FailedRanks() {
    if (std::getenv(kVariable) == nullptr) {
      folder_.emplace();
      ::setenv(kVariable, folder_->path().c_str(), 1);
    }
  }
  ~FailedRanks() {
    if (!folder_) {
      return; // a rank
    }
    ::unsetenv(kVariable);
    for (const auto& entry :
         std::filesystem::directory_iterator(folder_->path())) {
      ADD_FAILURE() << "expectations failed on rank "
                    << entry.path().filename().string()
                    << "; its output above says which";
    }
  }
  FailedRanks(const FailedRanks&) = delete;
  FailedRanks& operator=(const FailedRanks&) = delete;

  // On a rank.
  static void add(int rank) {
    write_file(
        std::filesystem::path(std::getenv(kVariable)) / std::to_string(rank),
        "");
  }

 private:
  static constexpr const char* kVariable = "GTEST_FAILED_RANKS";

  std::optional<TempDir> folder_; // in the parent only
};

// Notes a failure however the body of a rank ends.
struct NoteOfFailure {
  int rank;
  ~NoteOfFailure() {
    if (::testing::Test::HasFailure()) {
      FailedRanks::add(rank);
    }
  }
};

// Failed expectations do not throw, so a rank with failures must throw here.
inline void run_process_rank(
    const std::function<void(World&)>& body,
    std::chrono::milliseconds timeout) {
  const auto world = init_parallel_env({.timeout = timeout});
  {
    const NoteOfFailure note{world->rank()};
    body(*world);
  }
  if (::testing::Test::HasFailure()) {
    throw Error("expectations failed; this rank's output above says which");
  }
  destroy_process_group();
}

} // namespace detail

// Runs `body` on `num_ranks` process ranks that share a world, from within a
// TEST. Each rank runs this test program again, filtered to the current test.
// Must be the first spawn() of the test. Blocks. Throws RankFailed.
// Expectations that fail on a rank are failures of the test, whatever it does
// with that.
inline void run_process_ranks(
    int num_ranks,
    const std::function<void(World&)>& body,
    SpawnOptions options = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  ARGOSY_CHECK(test != nullptr, "[testing] not inside a test");
  const detail::FailedRanks failed;
  options.ranks = RankKind::Process;
  options.arguments = {
      std::string("--gtest_filter=") + test->test_suite_name() + "." +
          test->name(),
      "--gtest_also_run_disabled_tests"};
  spawn([&] { detail::run_process_rank(body, timeout); }, num_ranks, options);
}

} // namespace argosy::testing
