// How ranks that lost one meet again, in a store in memory, with a thread for
// each process.

#include "argosy/elastic/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/store/mem_kv.h"
#include "tests/store/expect.h"

namespace argosy::elastic {
namespace {

using argosy::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

Deadline at_once() {
  return Deadline::after(std::chrono::milliseconds(50));
}

// The processes of a job.
class Processes {
 public:
  explicit Processes(int size) : size_(size) {}

  Meeting meeting(int rank) { return Meeting(kv_, "job/", rank, size_); }

  std::future<Met> meets(int rank, std::int64_t applied) {
    return std::async(std::launch::async, [this, rank, applied] {
      return meeting(rank).meet(applied, str("records of ", rank), soon());
    });
  }

  void await_end(std::int64_t epoch) {
    while (!meeting(0).has_ended(epoch)) {
      std::this_thread::yield();
    }
  }

  // All of them, with the steps that each has applied.
  std::vector<Met> meet(const std::vector<std::int64_t>& applied) {
    std::vector<std::future<Met>> waiting;
    for (int rank = 0; rank < size_; ++rank) {
      waiting.push_back(meets(rank, applied[static_cast<std::size_t>(rank)]));
    }
    std::vector<Met> all;
    for (auto& each : waiting) {
      all.push_back(each.get());
    }
    return all;
  }

 private:
  const std::shared_ptr<store::Kv> kv_ = std::make_shared<store::MemKv>();
  const int size_;
};

TEST(RecoveryPlan, BeginsWhenNobodyHasAState) {
  EXPECT_EQ(
      plan_recovery({kNoState, kNoState}),
      (RecoveryPlan{.step = kNoState, .newcomers = {0, 1}}));
}

TEST(RecoveryPlan, TakesTheStateOfTheFirstRankThatIsFurthest) {
  EXPECT_EQ(
      plan_recovery({kNoState, 6, 7, 7}),
      (RecoveryPlan{.step = 7, .source = 2, .late = {1}, .newcomers = {0}}));
  EXPECT_EQ(
      plan_recovery({0, kNoState, 0}),
      (RecoveryPlan{.step = 0, .source = 0, .newcomers = {1}}));
}

TEST(RecoveryPlan, RefusesRanksThatAreFurtherApart) {
  EXPECT_THAT(
      message_of<InternalError>([] {
        plan_recovery({4, 6});
      }),
      HasSubstr("rank 0 has applied 4 steps and another one 6"));
}

// The argument of recovery_plan.h, by all interleavings of two ranks and of the
// ends of their agreements: rank r gives to the agreement of a step, gets what
// both gave, applies. Whenever both stop, they are at most one apart, and who
// is behind has given, and so has gradients.
TEST(RecoveryPlan, RanksAreNeverFurtherApart) {
  struct Rank {
    int given = 0;   // to how many agreements
    int applied = 0; // steps
  };
  const int kMost = 4;
  int states = 0;
  const auto explore = [&](const auto& self, Rank a, Rank b) -> void {
    ++states;
    const RecoveryPlan plan = plan_recovery({a.applied, b.applied});
    for (const int late : plan.late) {
      EXPECT_EQ((late == 0 ? a : b).given, plan.step);
    }
    for (const bool first : {true, false}) {
      Rank next = first ? a : b;
      const Rank& other = first ? b : a;
      if (next.given == next.applied && next.given < kMost) {
        ++next.given;
      } else if (next.given > next.applied && other.given >= next.given) {
        ++next.applied;
      } else {
        continue;
      }
      first ? self(self, next, b) : self(self, a, next);
    }
  };
  explore(explore, {}, {});
  EXPECT_GT(states, 50);
}

TEST(Meeting, BringsAllTogether) {
  Processes processes(3);
  const Met expected{
      .epoch = 0,
      .plan = {.step = kNoState, .source = -1, .newcomers = {0, 1, 2}}};
  EXPECT_EQ(
      processes.meet({kNoState, kNoState, kNoState}),
      std::vector<Met>(3, expected));
}

TEST(Meeting, IsANewOneAfterAFailure) {
  Processes processes(3);
  processes.meet({kNoState, kNoState, kNoState});
  // Two ranks find the failure; the new process of rank 1 knows nothing of it.
  processes.meeting(0).end(0);
  processes.meeting(2).end(0);
  const Met expected{
      .epoch = 1,
      .plan = {.step = 5, .source = 2, .late = {0}, .newcomers = {1}},
      .records = "records of 2"};
  EXPECT_EQ(processes.meet({4, kNoState, 5}), std::vector<Met>(3, expected));
}

// The replacement comes before anybody has found out that the first is dead.
TEST(Meeting, AReplacementEndsTheEpochOfItsPredecessor) {
  Processes processes(2);
  processes.meet({kNoState, kNoState});
  auto replacement = processes.meets(1, kNoState);
  processes.await_end(0);
  EXPECT_EQ(processes.meets(0, 3).get().epoch, 1);
  EXPECT_EQ(replacement.get().plan.newcomers, std::vector<int>{1});
}

// Rank 1 dies while it waits for rank 2; those that wait with it go on to the
// meeting of its replacement.
TEST(Meeting, MovesOnWhenOneOfThoseWhoWaitDies) {
  Processes processes(3);
  processes.meet({kNoState, kNoState, kNoState});
  processes.meeting(0).end(0);
  auto first = processes.meets(0, 2);
  EXPECT_THROW(
      processes.meeting(1).meet(2, "", at_once()), TimeoutError); // "dies"
  auto second = processes.meets(1, kNoState);
  processes.await_end(1); // else rank 2 may meet the dead one
  auto third = processes.meets(2, 2);
  EXPECT_EQ(first.get().epoch, 2);
  EXPECT_EQ(second.get().plan.source, 0);
  EXPECT_EQ(third.get().plan.newcomers, std::vector<int>{1});
}

TEST(Meeting, NamesWhoDoesNotCome) {
  Processes processes(3);
  EXPECT_THAT(
      message_of<TimeoutError>(
          [&] { processes.meeting(1).meet(kNoState, "", at_once()); }),
      AllOf(
          HasSubstr("[elastic.meet] rank 0, 2 of 3 did not come"),
          HasSubstr("within 50 ms")));
}

TEST(Meeting, IsOverWhenAllHaveFinished) {
  Processes processes(2);
  processes.meet({kNoState, kNoState});
  auto other = std::async(std::launch::async, [&] {
    return processes.meeting(1).finish(0, soon());
  });
  EXPECT_TRUE(processes.meeting(0).finish(0, soon()));
  EXPECT_TRUE(other.get());
  EXPECT_TRUE(processes.meeting(0).meet(9, "", soon()).is_over);
  EXPECT_THAT(
      message_of<InvalidArgument>(
          [&] { processes.meeting(1).meet(kNoState, "", soon()); }),
      HasSubstr("rank 1 died after all ranks had finished"));
}

// Who has finished still gives its state to one that has not.
TEST(Meeting, WaitsForAllBeforeItIsOver) {
  Processes processes(2);
  processes.meet({kNoState, kNoState});
  auto finished = std::async(std::launch::async, [&] {
    return processes.meeting(0).finish(0, soon());
  });
  auto replacement = processes.meets(1, kNoState);
  EXPECT_FALSE(finished.get());
  const Met met = processes.meets(0, 9).get();
  EXPECT_FALSE(met.is_over);
  EXPECT_EQ(replacement.get(), met);
  EXPECT_EQ(met.plan.source, 0);
}

TEST(Meeting, CountsDeathsByStep) {
  Processes processes(2);
  EXPECT_EQ(processes.meeting(1).count_death(3), 1);
  EXPECT_EQ(processes.meeting(1).count_death(3), 2);
  EXPECT_EQ(processes.meeting(1).count_death(4), 1);
  EXPECT_EQ(processes.meeting(0).count_death(3), 1);
}

} // namespace
} // namespace argosy::elastic
