#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "argosy/rpc/sessions.h"
#include "tests/rpc/workers.h"

namespace argosy::rpc::testing {
namespace {

using ::testing::HasSubstr;
using Verdict = Session::Verdict;

TEST(Session, RunsACallOnceAndKeepsItsAnswerUntilConfirmed) {
  const auto kept = std::make_shared<KeptBytes>();
  kept->limit = 10000;
  Session session(kept);
  EXPECT_EQ(session.begin(5, 5).verdict, Verdict::Run);
  EXPECT_EQ(session.begin(5, 5).verdict, Verdict::UnderWay);
  session.finish(5, {FrameKind::Reply, "", {"five"}});
  const auto again = session.begin(5, 5);
  EXPECT_EQ(again.verdict, Verdict::Answered);
  EXPECT_EQ(again.answer->message.head, "five");
  EXPECT_EQ(session.begin(6, 6).verdict, Verdict::Run);
  EXPECT_EQ(session.begin(5, 5).verdict, Verdict::Stale);
  EXPECT_EQ(kept->answers, 0);
  session.forget(6);
  EXPECT_EQ(kept->used, 0);
}

TEST(Session, BoundsWhatItKeeps) {
  const auto kept = std::make_shared<KeptBytes>();
  kept->limit = 2000;
  {
    Session session(kept);
    EXPECT_EQ(session.begin(1, 1).verdict, Verdict::Run);
    session.finish(1, {FrameKind::Reply, "", {std::string(1800, 'x')}});
    EXPECT_EQ(session.begin(2, 1).verdict, Verdict::Full);
    EXPECT_EQ(session.begin(2, 2).verdict, Verdict::Run);
    // A call that its caller has given up leaves nothing behind.
    session.confirm(3);
    session.finish(2, {FrameKind::Reply, "", {"late"}});
    EXPECT_EQ(kept->used, 0);
    EXPECT_EQ(session.begin(9, 3).verdict, Verdict::Run);
  }
  EXPECT_EQ(kept->used, 0);
}

TEST(Sessions, ForgetsThoseWhoStayAway) {
  const auto now = Deadline::Clock::now();
  Sessions sessions(1000, {.absent = 2, .absence = std::chrono::seconds(60)});
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_FALSE(sessions.knows(name));
    sessions.enter(name);
  }
  const auto back = sessions.enter("a"); // a second connection
  for (const char* name : {"a", "b", "c", "d"}) {
    sessions.leave(name, now);
  }
  EXPECT_TRUE(sessions.knows("a"));
  EXPECT_FALSE(sessions.knows("b"));
  EXPECT_TRUE(sessions.knows("c"));
  EXPECT_EQ(sessions.enter("a"), back);
  sessions.leave("a", now + std::chrono::seconds(100));
  EXPECT_FALSE(sessions.knows("d"));
}

class OnceOver : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(
    Transports, OnceOver, all_transports(), transport_name);

// Cuts connections at random moments, on both sides, while calls add to a
// counter: it must end at the number of calls, and each answer is its own.
void count_while_connections_break(
    Transport transport, int calls_each, unsigned seed) {
  auto workers = make_workers(2, transport);
  std::atomic<int> counter{0};
  const auto add = [&counter](IncomingCall call) {
    ++counter;
    Message request = call.take_request();
    std::move(call).reply(std::move(request));
  };
  workers[1]->serve("add", add);
  workers[1]->serve("fast", add, {.inline_ = true});
  std::atomic<bool> stop{false};
  std::atomic<int> good{0};
  constexpr int kThreads = 3;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      const CallOptions options{.deadline = within(60), .exactly_once = true};
      for (int i = 0; i < calls_each; ++i) {
        const std::string body =
            pattern(random() % 16 == 0 ? 200000 : 20, random());
        const char* method = i % 2 == 0 ? "add" : "fast";
        try {
          const Message reply = i % 3 == 0
              ? workers[0]->call(1, method, text(body), options).wait()
              : workers[0]->call_sync(1, method, text(body), options);
          good += reply.head == body;
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }
    });
  }
  std::thread cutter([&] {
    std::mt19937 random(seed + 100);
    // Not for ever: a slow machine needs longer for a call than between cuts.
    for (int cuts = 0; cuts < calls_each / 3 && !stop; ++cuts) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(200 + random() % 3000));
      workers[random() % 2]->break_connections();
    }
  });
  for (std::thread& thread : threads) {
    thread.join();
  }
  stop = true;
  cutter.join();
  EXPECT_EQ(good, kThreads * calls_each);
  EXPECT_EQ(counter, kThreads * calls_each);
  EXPECT_GT(workers[0]->counts().connects, 3);
  EXPECT_GT(workers[0]->counts().resent, 0);
  EXPECT_LE(workers[1]->counts().kept_results, kThreads);
}

TEST_P(OnceOver, CountsEachCallOnceWhileConnectionsBreak) {
  count_while_connections_break(GetParam(), 300, 1);
}

TEST_P(OnceOver, SoakCountsEachCallOnceWhileConnectionsBreak) {
  for (unsigned seed = 2; seed < 12; ++seed) {
    count_while_connections_break(GetParam(), 3000, seed * 1000);
  }
}

TEST_P(OnceOver, ARestartedCalleeIsNotTheSame) {
  auto workers = make_workers(2, GetParam());
  std::atomic<bool> inside{false};
  std::atomic<bool> open{false};
  workers[1]->serve("wait", [&](IncomingCall call) {
    inside = true;
    while (!open) {
      std::this_thread::yield();
    }
    echo(std::move(call));
  });
  auto future = workers[0]->call(
      1, "wait", {}, {.deadline = within(20), .exactly_once = true});
  while (!inside) {
    std::this_thread::yield();
  }
  open = true;
  const bool tcp = GetParam() == Transport::Tcp;
  const std::string address = workers[1]->address();
  workers.pop_back();
  try {
    future.wait();
  } catch (const RpcError& error) {
    // It may have answered before it ended.
    EXPECT_EQ(error.failure(), Failure::PeerLost);
    EXPECT_THAT(error.what(), HasSubstr("worker1"));
  }
  if (!tcp) {
    EXPECT_THROW(
        workers[0]->call_sync(
            1, "wait", {}, {.deadline = within(20), .exactly_once = true}),
        RpcError);
  }
}

TEST(Once, LargeResultsAreConfirmedAtOnce) {
  auto workers = make_workers(2, Transport::SharedMemory);
  workers[1]->serve("echo", echo);
  const CallOptions options{.deadline = within(20), .exactly_once = true};
  workers[0]->call_sync(1, "echo", text(pattern(100000)), options);
  const Deadline limit = within(5);
  while (workers[1]->counts().kept_results > 0 && !limit.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(workers[1]->counts().kept_results, 0);
  workers[0]->call_sync(1, "echo", text("small"), options);
  EXPECT_EQ(workers[1]->counts().kept_results, 1);
}

TEST(Once, RefusesWhenTooManyResultsAreUnconfirmed) {
  EndpointOptions common;
  common.limits.kept_result_bytes = 3000;
  auto workers = make_workers(2, Transport::Unix, common);
  std::atomic<bool> open{false};
  workers[1]->serve("wait", [&](IncomingCall call) {
    while (!open) {
      std::this_thread::yield();
    }
    echo(std::move(call));
  });
  workers[1]->serve("echo", echo);
  const CallOptions options{.deadline = within(20), .exactly_once = true};
  // The oldest call is open, so that none after it can be confirmed.
  auto oldest = workers[0]->call(1, "wait", {}, options);
  int refused = 0;
  for (int i = 0; i < 5; ++i) {
    try {
      workers[0]->call_sync(1, "echo", text(pattern(1000)), options);
    } catch (const RpcError& error) {
      EXPECT_EQ(error.failure(), Failure::Refused);
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
  open = true;
  oldest.wait();
  EXPECT_NO_THROW(workers[0]->call_sync(1, "echo", {}, options));
}

} // namespace
} // namespace argosy::rpc::testing
