#include "argosy/rpc/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "tests/rpc/workers.h"

namespace argosy::rpc::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A function that ends when the test says so.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> inside{0};
  std::atomic<bool> saw_cancel{false};

  void pass(IncomingCall call) {
    ++inside;
    const Deadline limit = within(20);
    while (!open && !limit.expired()) {
      saw_cancel = saw_cancel || call.cancelled();
      std::this_thread::sleep_for(milliseconds(1));
    }
    echo(std::move(call));
  }
  Handler handler() {
    return [this](IncomingCall call) { pass(std::move(call)); };
  }
};

class EndpointOver : public ::testing::TestWithParam<Transport> {
 protected:
  void serve_all() {
    for (const auto& worker : workers) {
      worker->serve("echo", echo);
      worker->serve("fast", echo, {.inline_ = true});
    }
  }

  Gate gate; // outlives those who stand in it
  std::vector<std::unique_ptr<Endpoint>> workers = make_workers(2, GetParam());
};

INSTANTIATE_TEST_SUITE_P(
    Transports, EndpointOver, all_transports(), transport_name);

template <typename F>
RpcError failure_of(F f) {
  try {
    f();
  } catch (const RpcError& error) {
    return error;
  }
  ADD_FAILURE() << "no RpcError";
  return {Failure::Remote, "", ""};
}

TEST_P(EndpointOver, CarriesMessagesOfAllSizes) {
  serve_all();
  for (const char* method : {"echo", "fast"}) {
    for (const std::size_t size :
         {0, 1, 7, 64, 4095, 4096, 4097, 65537, (1 << 20) + 3}) {
      Message message{pattern(size % 5000)};
      message.parts.push_back(Bytes::owned(pattern(size)));
      message.parts.push_back({});
      message.parts.push_back(Bytes::owned(pattern(3, 9)));
      const Message reply =
          workers[0]->call_sync(1, method, message, {.deadline = within(20)});
      EXPECT_EQ(reply.head, message.head);
      ASSERT_EQ(reply.parts.size(), 3);
      EXPECT_EQ(reply.parts[0].text(), message.parts[0].text());
      EXPECT_EQ(reply.parts[1].size, 0);
      EXPECT_EQ(reply.parts[2].text(), pattern(3, 9));
    }
  }
}

TEST_P(EndpointOver, PartsAreAlignedAndOutliveTheEndpoint) {
  serve_all();
  Message reply =
      workers[0]->call_sync(1, "echo", {"", {Bytes::owned(pattern(100000))}});
  workers.clear();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reply.parts[0].data) % 64, 0);
  EXPECT_EQ(reply.parts[0].text(), pattern(100000));
}

TEST_P(EndpointOver, CallsItself) {
  serve_all();
  EXPECT_EQ(workers[0]->call_sync(0, "echo", text("me")).head, "me");
  EXPECT_EQ(workers[0]->call(0, "fast", text("me")).wait().head, "me");
}

TEST_P(EndpointOver, ExceptionsTravelWithTypeAndText) {
  workers[1]->serve(
      "throws", [](IncomingCall) { throw std::out_of_range("no such row 7"); });
  workers[1]->serve("argosy", [](IncomingCall) {
    throw InvalidArgument("[here.op] bad value, 3");
  });
  workers[1]->serve("odd", [](IncomingCall) { throw 3; });
  workers[1]->serve("drops", [](IncomingCall) {}, {.inline_ = true});
  try {
    workers[0]->call_sync(1, "throws", {});
    FAIL();
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "std::out_of_range");
    EXPECT_EQ(error.text(), "no such row 7");
    EXPECT_EQ(error.peer(), "worker1");
    EXPECT_EQ(error.failure(), Failure::Remote);
    EXPECT_THAT(error.what(), HasSubstr("throws of worker1"));
  }
  try {
    workers[0]->call_sync(1, "argosy", {});
    FAIL();
  } catch (const RemoteError& error) {
    EXPECT_EQ(error.type(), "argosy::InvalidArgument");
    EXPECT_EQ(error.text(), "[here.op] bad value, 3");
  }
  EXPECT_EQ(
      failure_of([&] { workers[0]->call_sync(1, "odd", {}); }).failure(),
      Failure::Remote);
  EXPECT_THAT(
      failure_of([&] { workers[0]->call_sync(1, "drops", {}); }).what(),
      HasSubstr("without an answer"));
}

TEST_P(EndpointOver, RefusesUnknownFunctionsAndWorkers) {
  const RpcError error =
      failure_of([&] { workers[0]->call_sync(1, "nothing", {}); });
  EXPECT_EQ(error.failure(), Failure::Refused);
  EXPECT_THAT(error.what(), HasSubstr("nothing of worker1"));
  EXPECT_THROW(workers[0]->call(2, "nothing", {}), InvalidArgument);
  EXPECT_THROW(workers[0]->call(-1, "nothing", {}), InvalidArgument);
  EXPECT_THROW(workers[0]->call(1, "", {}), InvalidArgument);
  serve_all();
  EXPECT_THROW(workers[0]->serve("echo", echo), InvalidArgument);
}

TEST_P(EndpointOver, TimesOutWhileTheCalleeSleeps) {
  workers[1]->serve("gate", gate.handler());
  serve_all();
  const CallOptions options{.deadline = Deadline::after(milliseconds(50))};
  const auto begin = Deadline::Clock::now();
  const RpcError sync =
      failure_of([&] { workers[0]->call_sync(1, "gate", {}, options); });
  EXPECT_EQ(sync.failure(), Failure::Timeout);
  EXPECT_THAT(sync.what(), HasSubstr("50 ms"));
  // Nobody waits for this one: the endpoint's own clock ends it.
  std::latch ended(1);
  workers[0]
      ->call(1, "gate", {}, {.deadline = Deadline::after(milliseconds(50))})
      .then([&](const Result<Message>& result) {
        EXPECT_FALSE(result.ok());
        ended.count_down();
      });
  ended.wait();
  EXPECT_LT(Deadline::Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(workers[0]->call_sync(1, "echo", text("still")).head, "still");
  gate.open = true;
}

TEST_P(EndpointOver, TheCalleeSeesWhatIsLeftOfTheDeadline) {
  workers[1]->serve("left", [](IncomingCall call) {
    const auto left = call.deadline().remaining().count();
    std::move(call).reply(text(std::to_string(left)));
  });
  const int left = std::stoi(
      workers[0]->call_sync(1, "left", {}, {.deadline = within(7)}).head);
  EXPECT_GT(left, 5000);
  EXPECT_LE(left, 7000);
}

TEST_P(EndpointOver, CancelledCallsEndAndTheCalleeNotices) {
  workers[1]->serve("gate", gate.handler());
  auto future = workers[0]->call(1, "gate", {}, {.deadline = within(20)});
  while (gate.inside == 0) {
    std::this_thread::yield();
  }
  std::thread canceller([&] { future.cancel(); });
  const RpcError error = failure_of([&] { future.wait(); });
  canceller.join();
  EXPECT_EQ(error.failure(), Failure::Cancelled);
  while (!gate.saw_cancel) {
    std::this_thread::yield();
  }
  gate.open = true;
}

TEST_P(EndpointOver, ThousandsInFlightFromSeveralThreads) {
  serve_all();
  constexpr int kThreads = 4;
  constexpr int kCalls = 2500;
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Future<Message>> futures;
      for (int i = 0; i < kCalls; ++i) {
        futures.push_back(workers[0]->call(
            1,
            i % 2 == 0 ? "echo" : "fast",
            text(std::to_string(t * kCalls + i)),
            {.deadline = within(60)}));
      }
      for (int i = 0; i < kCalls; ++i) {
        good += futures[i].wait().head == std::to_string(t * kCalls + i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, kThreads * kCalls);
}

TEST_P(EndpointOver, SyncCallsFromSeveralThreads) {
  serve_all();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string head = std::to_string(t * 1000 + i);
        good += workers[0]
                    ->call_sync(
                        1,
                        i % 2 == 0 ? "echo" : "fast",
                        text(head),
                        {.deadline = within(60)})
                    .head == head;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good, 1200);
}

TEST_P(EndpointOver, HandlersCallOthers) {
  // Counts down by calling the other worker each time.
  for (int i = 0; i < 2; ++i) {
    workers[i]->serve("down", [this, i](IncomingCall call) {
      const int n = std::stoi(call.request().head);
      std::move(call).reply(
          n == 0
              ? text(".")
              : text(
                    std::to_string(n) + " " +
                    workers[i]
                        ->call_sync(1 - i, "down", text(std::to_string(n - 1)))
                        .head));
    });
  }
  EXPECT_EQ(
      workers[0]->call_sync(1, "down", text("8")).head, "8 7 6 5 4 3 2 1 .");
}

TEST_P(EndpointOver, SlowCallsDoNotHoldUpFastOnes) {
  workers[1]->serve("gate", gate.handler());
  serve_all();
  std::vector<Future<Message>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(workers[0]->call(1, "gate", {}, {.deadline = within(30)}));
  }
  EXPECT_EQ(workers[0]->call_sync(1, "echo", text("a")).head, "a");
  EXPECT_EQ(workers[0]->call_sync(1, "fast", text("b")).head, "b");
  gate.open = true;
  for (auto& future : slow) {
    future.wait();
  }
}

TEST_P(EndpointOver, FansOutAndNamesWhoFailed) {
  auto all = make_workers(4, GetParam());
  for (int i = 1; i < 4; ++i) {
    all[i]->serve("work", [i](IncomingCall call) {
      if (i == 2) {
        throw std::runtime_error("disk full");
      }
      std::move(call).reply(text(std::to_string(i)));
    });
  }
  std::vector<Request> requests;
  for (int i = 1; i < 4; ++i) {
    requests.push_back({i, "work", {}});
  }
  const auto results =
      all[0]->call_all(requests, {.deadline = within(20)}).wait();
  ASSERT_EQ(results.size(), 3);
  EXPECT_EQ(results[0].value().head, "1");
  EXPECT_EQ(results[2].value().head, "3");
  const RpcError error = failure_of([&] { results[1].value(); });
  EXPECT_EQ(error.peer(), "worker2");
  EXPECT_THAT(error.what(), HasSubstr("disk full"));
  EXPECT_TRUE(all[0]->call_all({}).wait().empty());
}

TEST_P(EndpointOver, LateAnswersFromOtherThreads) {
  std::thread answering;
  workers[1]->serve(
      "later",
      [&](IncomingCall call) {
        answering = std::thread(
            [late = std::make_shared<IncomingCall>(std::move(call))] {
              echo(std::move(*late));
            });
      },
      {.inline_ = true});
  EXPECT_EQ(workers[0]->call_sync(1, "later", text("x")).head, "x");
  workers.clear(); // after which `answering` is set
  answering.join();
}

TEST_P(EndpointOver, CallbacksRunWithTheResult) {
  serve_all();
  std::latch ended(2);
  std::string got;
  auto future = workers[0]->call(1, "echo", text("a"));
  future.then([&](const Result<Message>& result) {
    got = result.value().head;
    ended.count_down();
  });
  auto length =
      workers[0]->call(1, "echo", text("four")).transform([](Message reply) {
        return reply.head.size();
      });
  length.then([&](const Result<std::size_t>& size) {
    EXPECT_EQ(size.value(), 4);
    ended.count_down();
  });
  ended.wait();
  EXPECT_EQ(got, "a");
  EXPECT_EQ(length.wait(), 4);
}

TEST_P(EndpointOver, BrokenConnectionsFailCallsAndAreOpenedAgain) {
  workers[1]->serve("gate", gate.handler());
  serve_all();
  auto future = workers[0]->call(1, "gate", {}, {.deadline = within(20)});
  while (gate.inside == 0) {
    std::this_thread::yield();
  }
  workers[1]->break_connections();
  const RpcError error = failure_of([&] { future.wait(); });
  EXPECT_EQ(error.failure(), Failure::PeerLost);
  EXPECT_THAT(error.what(), HasSubstr("worker1"));
  EXPECT_EQ(workers[0]->call_sync(1, "echo", text("again")).head, "again");
  gate.open = true;
}

// Some are made before the connection is there, others while it carries those.
TEST_P(EndpointOver, CallsOfAThreadArriveInTheirOrder) {
  std::vector<int> arrived;
  workers[1]->serve(
      "note",
      [&](IncomingCall call) {
        arrived.push_back(std::stoi(call.request().head));
        echo(std::move(call));
      },
      {.inline_ = true});
  set_fault("rpc.connected:delay");
  std::vector<Future<Message>> answers;
  std::vector<int> made;
  do {
    made.push_back(static_cast<int>(made.size()));
    answers.push_back(workers[0]->call(1, "note", text(str(made.back()))));
    std::this_thread::sleep_for(milliseconds(1)); // how often it calls
  } while (!answers.front().done() && made.size() < 10000);
  for (auto& answer : answers) {
    answer.wait();
  }
  set_fault("");
  EXPECT_EQ(arrived, made);
}

TEST_P(EndpointOver, ShutdownAnswersWhatIsUnderWay) {
  workers[1]->serve("gate", gate.handler());
  auto future =
      workers[0]->call(1, "gate", text("x"), {.deadline = within(20)});
  while (gate.inside == 0) {
    std::this_thread::yield();
  }
  std::thread ending([&] { workers[1]->shutdown(within(10)); });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(
      failure_of([&] { workers[0]->call_sync(1, "gate", {}); }).failure(),
      Failure::Refused);
  gate.open = true;
  EXPECT_EQ(future.wait().head, "x");
  ending.join();
  const RpcError error = failure_of(
      [&] { workers[0]->call_sync(1, "gate", {}, {.deadline = within(1)}); });
  EXPECT_NE(error.failure(), Failure::Remote);
}

TEST(Endpoint, ReplacedPeersFailTheirCalls) {
  Gate gate;
  auto workers = make_workers(3, Transport::SharedMemory);
  workers[1]->serve("gate", gate.handler());
  workers[2]->serve("gate", echo);
  auto future = workers[0]->call(1, "gate", {}, {.deadline = within(20)});
  while (gate.inside == 0) {
    std::this_thread::yield();
  }
  workers[0]->set_peers(
      {{"worker0", workers[0]->address()}, {"worker1", workers[2]->address()}});
  EXPECT_EQ(failure_of([&] { future.wait(); }).failure(), Failure::PeerLost);
  EXPECT_EQ(workers[0]->call_sync(1, "gate", text("new")).head, "new");
  gate.open = true;
}

TEST(Endpoint, CallersWaitWhenLimitsAreReached) {
  Gate gate;
  EndpointOptions common;
  common.limits.calls_in_flight = 4;
  auto workers = make_workers(2, Transport::Unix, common);
  workers[1]->serve("gate", gate.handler());
  std::vector<Future<Message>> futures;
  for (int i = 0; i < 4; ++i) {
    futures.push_back(
        workers[0]->call(1, "gate", {}, {.deadline = within(20)}));
  }
  const RpcError error = failure_of([&] {
    workers[0]->call(
        1, "gate", {}, {.deadline = Deadline::after(milliseconds(30))});
  });
  EXPECT_EQ(error.failure(), Failure::Timeout);
  EXPECT_THAT(error.what(), HasSubstr("4 calls"));
  gate.open = true;
  EXPECT_NO_THROW(
      workers[0]->call(1, "gate", {}, {.deadline = within(20)}).wait());
}

TEST_P(EndpointOver, BigMessagesWithinBoundedMemory) {
  constexpr std::size_t kBig = std::size_t{64} << 20;
  EndpointOptions common;
  common.limits.request_bytes = kBig + (1 << 20);
  auto pair = make_workers(2, GetParam(), common);
  std::atomic<std::size_t> most{0};
  std::atomic<int> at_once{0};
  pair[1]->serve("sum", [&](IncomingCall call) {
    EXPECT_EQ(++at_once, 1); // there is memory for one
    most = std::max<std::size_t>(most, pair[1]->counts().request_bytes);
    unsigned sum = 0;
    const auto& part = call.request().parts[0];
    for (std::size_t i = 0; i < part.size; i += 4096) {
      sum += static_cast<unsigned char>(part.data[i]);
    }
    --at_once;
    std::move(call).reply(text(std::to_string(sum)));
  });
  const std::string big(kBig, '\1'); // outlives the calls
  std::vector<Future<Message>> futures;
  for (int i = 0; i < 4; ++i) {
    futures.push_back(pair[0]->call(
        1,
        "sum",
        {"", {Bytes::borrowed(big.data(), kBig)}},
        {.deadline = within(60)}));
  }
  for (auto& future : futures) {
    EXPECT_EQ(future.wait().head, std::to_string(kBig / 4096));
  }
  EXPECT_LE(most, kBig + (1 << 20));
}

TEST(Endpoint, RefusesMessagesBeyondTheLimit) {
  EndpointOptions common;
  common.limits.message_bytes = 1000;
  auto workers = make_workers(2, Transport::Unix, common);
  EndpointOptions large = options_for(Transport::Unix, 0);
  Endpoint caller(large);
  caller.set_peers(
      {{"worker0", caller.address()}, {"worker1", workers[1]->address()}});
  workers[1]->serve("echo", echo);
  EXPECT_THROW(
      workers[0]->call(1, "echo", text(pattern(1001))), InvalidArgument);
  EXPECT_EQ(
      failure_of([&] {
        caller.call_sync(1, "echo", text(pattern(1001)));
      }).failure(),
      Failure::PeerLost);
  EXPECT_EQ(
      caller.call_sync(1, "echo", text(pattern(1000))).head, pattern(1000));
}

} // namespace
} // namespace argosy::rpc::testing
