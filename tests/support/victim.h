#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "argosy/common/error.h"
#include "argosy/testing/gtest_ranks.h"

namespace argosy::testing {

// Runs process ranks of which `victim` is to die by a signal. When it has, the
// others are told to end (SIGTERM): they do not, until they have said what they
// saw.
inline void run_with_victim(
    int ranks, int victim, const std::function<void(World&)>& body) {
  try {
    run_process_ranks(ranks, [&](World& world) {
      std::signal(SIGTERM, SIG_IGN);
      body(world);
    });
    FAIL() << "rank " << victim << " was killed";
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), victim) << failure.what();
  }
}

} // namespace argosy::testing
