#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "argosy/common/text.h"

namespace argosy::testing {

struct SeedRange {
  std::uint64_t first;
  std::uint64_t last;
};

// Only this seed runs if the variable names one.
inline constexpr char kSeedVariable[] = "ARGOSY_SIMULATION_SEED";

inline SeedRange chosen_seeds(SeedRange seeds) {
  const char* const text = std::getenv(kSeedVariable);
  if (text == nullptr) {
    return seeds;
  }
  const std::uint64_t seed = std::strtoull(text, nullptr, 10);
  return {seed, seed};
}

// The run of a seed, with its trace. A Scenario is made of a seed; it has
// run(), which throws when something is wrong, and simulation().
template <typename Scenario>
std::string traced_run(std::uint64_t seed) {
  Scenario scenario(seed);
  scenario.simulation().keep_trace();
  std::string end = "ok";
  try {
    scenario.run();
  } catch (const std::exception& error) {
    end = error.what();
  }
  return scenario.simulation().trace() + end + "\n";
}

// What is wrong with the run of a seed; nullopt: nothing.
template <typename Scenario>
std::optional<std::string> failure_of(std::uint64_t seed) {
  try {
    Scenario scenario(seed);
    scenario.run();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Runs all seeds of a range, on as many threads as the machine has cores up to
// two. The first that fails is run again for its trace.
template <typename Scenario>
void run_seeds(SeedRange range) {
  const SeedRange seeds = chosen_seeds(range);
  std::atomic<std::uint64_t> next{seeds.first};
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::string>> failures;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed <= seeds.last; seed = next++) {
      if (const auto failure = failure_of<Scenario>(seed)) {
        const std::lock_guard lock(mutex);
        failures.emplace_back(seed, *failure);
        next = failures.size() >= 10 ? seeds.last + 1 : next.load();
      }
    }
  };
  const auto began = std::chrono::steady_clock::now();
  {
    std::jthread other(work);
    work();
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - began;
  std::cout << seeds.last - seeds.first + 1 << " seeds in " << took.count()
            << " s\n";
  for (const auto& [seed, failure] : failures) {
    ADD_FAILURE() << "seed " << seed << ": " << failure
                  << "\nrun it alone: " << kSeedVariable << "=" << seed;
  }
  if (!failures.empty()) {
    std::cout << "trace of seed " << failures[0].first << ":\n"
              << traced_run<Scenario>(failures[0].first);
  }
}

template <typename Scenario>
void expect_same_run(std::uint64_t seed) {
  EXPECT_EQ(traced_run<Scenario>(seed), traced_run<Scenario>(seed))
      << "seed " << seed;
  Scenario one(seed);
  Scenario other(seed);
  one.run();
  other.run();
  EXPECT_EQ(one.simulation().hash(), other.simulation().hash());
  EXPECT_NE(one.simulation().num_steps(), 0u);
}

} // namespace argosy::testing
