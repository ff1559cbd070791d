// Broken inputs for what the launcher reads: of other launchers through the
// store, of its workers through files, and of its user. A reader may refuse an
// input by an error of ours, and must do nothing else.
#include <gtest/gtest.h>

#include "argosy/common/error_file.h"
#include "argosy/launch/hosts.h"
#include "argosy/launch/node_record.h"
#include "tests/support/mutations.h"

namespace argosy::launch {
namespace {

using argosy::testing::fuzz_for;
using argosy::testing::kFuzzSeed;
using argosy::testing::Mutator;

NodeRecord record_of(const std::string& host, std::optional<int> rank) {
  return {
      .node =
          {.host = host,
           .address = "10.0.0.1",
           .num_servers = 0,
           .num_workers = 2,
           .ports = {4000, 4001}},
      .requested_rank = rank,
      .min_nodes = 2,
      .max_nodes = 2,
      .master_port = 29500};
}

void fuzz_arrivals(std::uint64_t seed) {
  const Arrivals good = {
      {1, record_of("a", 1)}, {2, record_of("b", std::nullopt)}};
  ASSERT_EQ(parse_arrivals(to_json(good)), good);
  Mutator inputs({to_json(good), to_json(Arrivals{})}, seed);
  int parsed = 0;
  for (int i = 0; i < 10'000; ++i) {
    try {
      const Arrivals arrivals = parse_arrivals(inputs.next());
      ++parsed;
      // What a launcher does with them.
      find_conflict(arrivals);
      missing_nodes_text(arrivals, 4, "30 s");
      for (const auto& [arrival, record] : arrivals) {
        const NodeAssignment own = assignment_of(arrivals, arrival);
        ASSERT_LT(own.node_rank, own.num_nodes());
        ASSERT_GE(record.node.num_workers, 0);
        ASSERT_EQ(parse_node_record(to_json(record)), record);
      }
    } catch (const StoreError&) {
    }
  }
  EXPECT_GT(parsed, 100);
}

void fuzz_failures(std::uint64_t seed) {
  Failure good = launcher_failure("a", "it failed");
  good.time = std::chrono::floor<std::chrono::milliseconds>(good.time);
  ASSERT_EQ(parse_failure(to_json(good)), good);
  Mutator inputs({to_json(good)}, seed);
  int parsed = 0;
  for (int i = 0; i < 10'000; ++i) {
    try {
      const Failure failure = parse_failure(inputs.next());
      ASSERT_EQ(parse_failure(to_json(failure)), failure);
      ++parsed;
    } catch (const StoreError&) {
    }
  }
  EXPECT_GT(parsed, 100);
}

void fuzz_hostfiles(std::uint64_t seed) {
  Mutator inputs(
      {"node0 slots=4\nnode1:2 # two\n\n[::1]\n", "user@h slots=2 max_slots=3"},
      seed);
  for (int i = 0; i < 20'000; ++i) {
    try {
      for (const HostSlots& each : parse_hostfile(inputs.next(), "file")) {
        ASSERT_FALSE(each.host.empty()) << i;
        ASSERT_FALSE(each.host.starts_with('-')) << i;
        ASSERT_GE(each.slots, 0) << i;
      }
    } catch (const InvalidArgument&) {
    }
  }
}

void fuzz_error_files(std::uint64_t seed) {
  const TempDir folder("/dev/shm/fuzz");
  const auto path = folder.path() / "error.json";
  write_error_file(
      path, {.message = "m", .call_stack = "s", .timestamp = 1'700'000'000});
  Mutator inputs(
      {*read_file(path),
       R"({"message": "only a text"})",
       R"({"message": {"message": "m", "extraInfo": {"timestamp": 17}}})"},
      seed);
  int parsed = 0;
  for (int i = 0; i < 3'000; ++i) {
    write_file(path, inputs.next());
    parsed += read_error_file(path) ? 1 : 0;
  }
  EXPECT_GT(parsed, 100);
}

TEST(Fuzz, Arrivals) {
  fuzz_arrivals(kFuzzSeed);
}

TEST(Fuzz, Failures) {
  fuzz_failures(kFuzzSeed);
}

TEST(Fuzz, Hostfiles) {
  fuzz_hostfiles(kFuzzSeed);
}

TEST(Fuzz, ErrorFiles) {
  fuzz_error_files(kFuzzSeed);
}

TEST(Fuzz, SoakWithOtherSeeds) {
  fuzz_for(std::chrono::minutes(2), [](std::uint64_t seed) {
    fuzz_arrivals(seed);
    fuzz_failures(seed);
    fuzz_hostfiles(seed);
    fuzz_error_files(seed);
  });
}

} // namespace
} // namespace argosy::launch
