// Flight records of real ranks, and what `argosy trace hang` makes of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>

#include "argosy/comm/flight/record_files.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/comm/flight_record.h"
#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "tests/support/command.h"
#include "tests/support/parent_temp_dir.h"

namespace argosy::comm {
namespace {

using namespace std::chrono_literals;
using argosy::testing::run_command;
using flight::State;
using ::testing::HasSubstr;

// Where this process and those that it starts write flight records.
class FlightDir {
 public:
  FlightDir() {
    ::setenv(
        "ARGOSY_FLIGHT_DIR", argosy::testing::ParentTempDir::path().c_str(), 1);
  }
  ~FlightDir() { ::unsetenv("ARGOSY_FLIGHT_DIR"); }
  FlightDir(const FlightDir&) = delete;
  FlightDir& operator=(const FlightDir&) = delete;

  std::string path() const { return dir_.path().string(); }

 private:
  const argosy::testing::ParentTempDir dir_;
};

argosy::testing::CommandResult trace_hang(const std::string& folder) {
  return run_command(std::string(ARGOSY_COMMAND) + " trace hang " + folder);
}

TEST(FlightRanks, RecordEveryCallWithItsShapes) {
  argosy::testing::run_ranks(2, [](World& world) {
    all_reduce(torch::ones({3, 4}), ReduceOp::MAX);
    const auto group = new_group({0, 1}, "c10d");
    const at::Tensor out = torch::empty({2, 5}, torch::kInt);
    all_gather(out, torch::ones({5}, torch::kInt), group);
    broadcast(torch::ones({2}), 1);
    const at::Tensor message = torch::ones({7});
    world.rank() == 0 ? send(message, 1, group) : recv(message, 0, group);
    const auto record = flight::parse_record(flight_record_json(), "own");
    EXPECT_EQ(record.rank, world.rank());
    EXPECT_EQ(record.world_size, 2);
    ASSERT_EQ(record.operations.size(), 4u);
    const auto& operations = record.operations;
    for (const auto& operation : operations) {
      EXPECT_EQ(operation.state, State::Completed);
    }
    EXPECT_EQ(
        to_string(operations[0].call), "all_reduce of float32 [3, 4], max");
    EXPECT_EQ(operations[0].call.bytes, 48);
    EXPECT_EQ(
        to_string(operations[1].call), "all_gather of int32 [5] to [2, 5]");
    EXPECT_EQ(operations[1].group, group->id());
    EXPECT_EQ(operations[1].sequence, 0u);
    EXPECT_EQ(
        to_string(operations[2].call), "broadcast of float32 [2], root 1");
    EXPECT_EQ(operations[2].sequence, 1u);
    EXPECT_EQ(
        to_string(operations[3].call),
        world.rank() == 0 ? "send of float32 [7], to rank 1"
                          : "recv of float32 [7], from rank 0");
    barrier();
  });
}

// The error of an operation, of asynchronous ones too, has the number and the
// label that its record has, and names the rank.
TEST(FlightRanks, ErrorsCountAndNameOperationsAsRecordsDo) {
  const OpLabel label("validation loss");
  for (const char* backend : {"auto", "gloo"}) {
    argosy::testing::run_ranks(3, [&](World& world) {
      const auto group = new_group({1, 2}, backend, 500ms);
      if (world.rank() > 0) {
        barrier(group);
        broadcast(torch::ones({2}), 1, group);
      }
      for (const bool sync : {true, false}) {
        if (world.rank() != 1) {
          continue; // rank 2 does not come
        }
        const LabelScope scope(label);
        try {
          all_reduce(torch::ones({3}), ReduceOp::SUM, group, sync)->wait();
          ADD_FAILURE();
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("; rank 1/3")) << backend;
          EXPECT_THAT(
              error.what(),
              HasSubstr("rank 2 of group 1 did not come to operation 2 "
                        "(all_reduce of 3 float32, sum, for \"validation "
                        "loss\")"));
        }
      }
      if (world.rank() == 1) {
        const auto record = flight::parse_record(flight_record_json(), "own");
        const auto& failed = record.operations.at(2);
        EXPECT_EQ(failed.sequence, 2u);
        EXPECT_EQ(failed.call.label, label);
        EXPECT_EQ(
            to_string(failed.call),
            "all_reduce of float32 [3], sum, for \"validation loss\"");
      }
      barrier(); // rank 2 is there, but elsewhere
    });
  }
}

TEST(FlightRanks, MessagesAreCountedAndNamedToo) {
  argosy::testing::run_ranks(3, [&](World& world) {
    const auto group = new_group({}, "auto", 300ms);
    if (world.rank() != 0) {
      const at::Tensor tensor = torch::ones({3});
      world.rank() == 1 ? send(tensor, 2, group) : recv(tensor, 1, group);
    }
    if (world.rank() == 2) {
      try {
        recv(torch::ones({3}), 1, group);
        ADD_FAILURE();
      } catch (const TimeoutError& error) {
        EXPECT_THAT(
            error.what(),
            HasSubstr("message 1 (recv of 3 float32 from rank 1)"));
        EXPECT_THAT(error.what(), HasSubstr("; rank 2/3"));
      }
    }
    barrier();
  });
}

TEST(FlightRanks, ProcessThatSkipsAnOperationIsNamed) {
  const FlightDir dir;
  argosy::testing::run_process_ranks(3, [&](World& world) {
    const auto group = new_group({}, "auto", 2s);
    barrier(group);
    if (world.rank() != 1) {
      EXPECT_THROW(
          all_reduce(torch::ones({4, 3}), ReduceOp::SUM, group), Error);
    }
    barrier(); // rank 1 is there long before the others
  });
  const auto result = trace_hang(dir.path());
  EXPECT_EQ(result.status.shell_code(), 0) << result.output;
  EXPECT_THAT(
      result.output, HasSubstr("collective 1: all_reduce of float32 [4, 3]"));
  EXPECT_THAT(result.output, HasSubstr("rank 1 NEVER CALLED IT"));
  EXPECT_THAT(result.output, HasSubstr("most wait for rank 1."));
}

TEST(FlightRanks, MessageOfWhichNobodyKnowsIsFoundWhileItHangs) {
  const FlightDir dir;
  argosy::testing::run_ranks(2, [&](World& world) {
    const auto group = new_group({}, "c10d", 5s);
    barrier(group);
    WorkPtr work;
    if (world.rank() == 1) {
      work = irecv(torch::empty({6}), 0, group);
    }
    barrier();
    if (world.rank() == 0) {
      const auto result = trace_hang("--fresh " + dir.path());
      EXPECT_EQ(result.status.shell_code(), 0) << result.output;
      EXPECT_THAT(result.output, HasSubstr("Message 0 from rank 0 to rank 1"));
      EXPECT_THAT(result.output, HasSubstr("recv of float32 [6], from rank 0"));
      EXPECT_THAT(result.output, HasSubstr("rank 0 NEVER CALLED IT"));
      send(torch::ones({6}), 1, group);
    } else {
      work->wait();
    }
  });
}

TEST(FlightRanks, ARankThatThrowsSaysWhy) {
  const FlightDir dir;
  EXPECT_THROW(
      argosy::testing::run_ranks(
          3,
          [&](World& world) {
            barrier();
            if (world.rank() == 2) {
              throw Error("disk full");
            }
            EXPECT_THROW(all_reduce(torch::ones({9})), PeerLost);
          }),
      RankFailed);
  const auto result = trace_hang(dir.path());
  EXPECT_EQ(result.status.shell_code(), 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("The others wait for rank 2."));
  EXPECT_THAT(result.output, HasSubstr("the rank gave up: disk full"));
}

TEST(TraceCommand, SaysWhenThereAreNoRecords) {
  const TempDir dir;
  const auto result = trace_hang(dir.path().string());
  EXPECT_EQ(result.status.shell_code(), 2);
  EXPECT_THAT(result.output, HasSubstr("no flight_rank_*.json"));
  EXPECT_EQ(run_command(ARGOSY_COMMAND " trace").status.shell_code(), 2);
  EXPECT_EQ(
      run_command(ARGOSY_COMMAND " trace hang --help").status.shell_code(), 0);
}

} // namespace
} // namespace argosy::comm
