#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "argosy/common/error.h"
#include "argosy/world/init.h"
#include "argosy/world/spawn.h"
#include "argosy/world/world.h"

namespace argosy::testing {

namespace detail {

// Failed expectations do not throw, so a rank with failures must throw here.
inline void run_process_rank(
    const std::function<void(World&)>& body,
    std::chrono::milliseconds timeout) {
  const auto world = init_parallel_env({.timeout = timeout});
  body(*world);
  if (::testing::Test::HasFailure()) {
    throw Error("expectations failed; this rank's output above says which");
  }
  destroy_process_group();
}

} // namespace detail

// Runs `body` on `num_ranks` process ranks that share a world, from within a
// TEST. Each rank runs this test program again, filtered to the current test.
// Must be the first spawn() of the test. Blocks. Throws RankFailed.
inline void run_process_ranks(
    int num_ranks,
    const std::function<void(World&)>& body,
    SpawnOptions options = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  ARGOSY_CHECK(test != nullptr, "[testing] not inside a test");
  options.ranks = RankKind::Process;
  options.arguments = {
      std::string("--gtest_filter=") + test->test_suite_name() + "." +
          test->name(),
      "--gtest_also_run_disabled_tests"};
  spawn([&] { detail::run_process_rank(body, timeout); }, num_ranks, options);
}

} // namespace argosy::testing
