// One region, and one client's lane to a region, by themselves: orders of
// events that whole jobs meet rarely.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/lane.h"
#include "argosy/ps/service/queries.h"
#include "argosy/ps/service/region.h"
#include "argosy/ps/service/server.h"
#include "argosy/store/mem_kv.h"
#include "tests/ps/service/small_model.h"

namespace argosy::ps {
namespace {

using rpc::Future;
using rpc::IncomingCall;
using rpc::Message;

constexpr Member kSelf{0, 42};
constexpr Member kOther{1, 43};
constexpr std::uint64_t kClient = 7;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(20));
}

// A server's endpoint and a client's.
class TwoEndpoints : public ::testing::Test {
 protected:
  TwoEndpoints() {
    client_.set_peers(
        {{"server 0", server_.address()}, {"client", client_.address()}});
  }

  std::shared_ptr<store::Kv> kv_ = std::make_shared<store::MemKv>();
  Directory directory_{kv_, "ps/"};
  rpc::Endpoint server_{{.name = "server 0", .id = 0}};
  rpc::Endpoint client_{{.name = "client", .id = 1}};
};

class RegionTest : public TwoEndpoints {
 protected:
  RegionTest()
      : region_(
            RegionOptions{.region = 0, .num_regions = 1, .self = kSelf},
            server_,
            directory_) {
    const rpc::ServeOptions at_once{.inline_ = true};
    server_.serve(
        std::string(kCommandMethod),
        [this](IncomingCall call) { region_.command(std::move(call)); },
        at_once);
    server_.serve(
        std::string(kQueryMethod),
        [this](IncomingCall call) { region_.query(std::move(call)); },
        at_once);
  }
  ~RegionTest() override { server_.shutdown(soon()); }

  void record(const Lineup& lineup) {
    directory_.replace_lineup(0, std::nullopt, lineup, soon());
  }

  Future<Message> send(Command command) {
    command.client = kClient;
    command.number = ++number_;
    return client_.call(
        0, kCommandMethod, encode(command), {.deadline = soon()});
  }
  Future<Message> ask(ByteWriter& question) {
    return client_.call(
        0, kQueryMethod, {question.take(), {}}, {.deadline = soon()});
  }
  static Status status_of(Future<Message> answer) {
    return decode_reply(std::move(answer).wait()).status;
  }

  Command set_job() {
    return {
        .kind = CommandKind::SetJob,
        .text = encode(JobSpec{.num_workers = 1, .sync = false})};
  }

  std::uint64_t number_ = 0;
  Region region_;
};

// The thread that reads the store is another one than the region's: what it
// read may be old when the region hears of it.
TEST_F(RegionTest, WhoStoodDownDoesNotLeadByAnOldLineup) {
  region_.confirm({1, kSelf, std::nullopt});
  EXPECT_EQ(status_of(send(set_job())), Status::Ok);
  region_.confirm({2, kOther, std::nullopt});
  region_.confirm({1, kSelf, std::nullopt});
  EXPECT_EQ(status_of(send(set_job())), Status::NotLeader);
  region_.confirm({3, kSelf, std::nullopt});
  --number_; // it was refused
  EXPECT_EQ(status_of(send(set_job())), Status::Ok);
}

// Updates would be acknowledged that the backup, which may lead next, has not.
TEST_F(RegionTest, LeadsNotBeforeTheStoreForgetsABackupThatDoesNotFollow) {
  const Lineup before{4, kSelf, kOther};
  record(before);
  region_.confirm(before);
  EXPECT_EQ(status_of(send(set_job())), Status::Ok);
  EXPECT_EQ(directory_.lineup(0, soon()), (Lineup{5, kSelf, std::nullopt}));
}

TEST_F(RegionTest, DoesNotLeadIfABackupHasTakenOver) {
  record({5, kOther, std::nullopt});
  region_.confirm({4, kSelf, kOther});
  EXPECT_EQ(status_of(send(set_job())), Status::NotLeader);
}

// Pushes wait while a save finds its cut; those that come later stay behind
// them. Whether they come so early is a matter of luck, hence the rounds.
TEST_F(RegionTest, PushesKeepTheirOrderBesideASave) {
  region_.confirm({1, kSelf, std::nullopt});
  ASSERT_EQ(status_of(send(set_job())), Status::Ok);
  const TempDir folder;
  for (std::uint64_t round = 1; round <= 30; ++round) {
    std::vector<Future<Message>> answers;
    ByteWriter hold;
    hold.put(std::uint32_t{0}).put(QueryKind::Hold);
    answers.push_back(ask(hold));
    answers.push_back(send({.kind = CommandKind::Push}));
    ByteWriter save;
    save.put(std::uint32_t{0})
        .put(QueryKind::Save)
        .put(std::int64_t{-1})
        .text(folder.path().string())
        .put(std::int32_t{0})
        .put(std::int32_t{-1})
        .put(kClient + 1)
        .put(round);
    answers.push_back(ask(save));
    for (int i = 0; i < 20; ++i) {
      answers.push_back(send({.kind = CommandKind::Push}));
    }
    for (Future<Message>& answer : answers) {
      ASSERT_EQ(status_of(std::move(answer)), Status::Ok);
    }
  }
}

// A leader that begins to copy a region to a server, and gives up.
TEST(FollowerTest, JoinsAgainWhenItsLeaderHasGivenUpCopying) {
  const auto kv = std::make_shared<store::MemKv>();
  Directory directory(kv, "ps/");
  rpc::Endpoint leader({.name = "server 0", .id = 0});
  std::atomic<int> joins = 0;
  const auto await_joins = [&joins](int number) {
    const Deadline deadline = soon();
    while (joins < number && !deadline.expired()) {
      std::this_thread::yield();
    }
    return joins >= number;
  };
  leader.serve(
      std::string(kManageMethod),
      [&](IncomingCall call) {
        const std::string head = call.request().head;
        ByteReader in(head, "test");
        const auto region = in.get<std::uint32_t>();
        joins += in.get<ManageKind>() == ManageKind::Join && region == 0;
        std::move(call).reply(encode(Reply{}));
      },
      {.inline_ = true});
  directory.register_server(
      0, {kSelf.incarnation, leader.address(), {{0, {}}, {1, {}}}}, soon());
  directory.replace_lineup(0, std::nullopt, {1, kSelf, std::nullopt}, soon());
  Server follower({.server = 1, .shape = {2, 1}, .kv = kv, .replicated = true});
  ASSERT_TRUE(await_joins(1));
  const auto servers = directory.servers(soon());
  leader.set_peers(
      {{"server 0", leader.address()}, {"server 1", servers.at(1).address}});
  RegionState state(0, 2);
  leader
      .call(
          1,
          kReplicateMethod,
          encode(StreamMessage{
              .epoch = 1,
              .session = 5,
              .kind = StreamKind::Header,
              .message = {"", {rpc::Bytes::owned(state.save_header())}}}),
          {.deadline = soon()})
      .wait();
  EXPECT_TRUE(await_joins(joins + 2)); // one may have been on its way
}

// A leader whose answers the test decides, and a lane to it.
class LaneTest : public TwoEndpoints {
 protected:
  using Handle = std::function<void(const Command&, IncomingCall)>;

  void lead(const Handle& handle) {
    server_.serve(
        std::string(kCommandMethod),
        [handle](IncomingCall call) {
          const Command command = decode_command(call.take_request());
          handle(command, std::move(call));
        },
        {.inline_ = true});
    directory_.register_server(
        0, {kSelf.incarnation, server_.address(), {}}, soon());
    directory_.replace_lineup(
        0, std::nullopt, {1, kSelf, std::nullopt}, soon());
    router_.connect({.name = "worker 0", .id = 1}, soon());
  }
  ~LaneTest() override { router_.disconnect(); }

  static void answer(IncomingCall call, Reply reply) {
    std::move(call).reply(encode(std::move(reply)));
  }

  // As Region does.
  void judge(const Command& command, IncomingCall call) {
    const bool gap = sequences_.judge(command.client, command.number) ==
        Sequences::Verdict::Gap;
    const auto last =
        static_cast<std::int64_t>(sequences_.last(command.client));
    if (!gap) {
      sequences_.record(command.client, command.number);
    }
    answer(
        std::move(call),
        gap ? Reply{.status = Status::Gap, .version = last} : Reply{});
  }

  Sequences sequences_;
  Router router_{{1, 1}, kv_, "ps/"};
  Lane lane_{router_, 0, kClient, 8};
};

// As when the commands came over two connections.
TEST_F(LaneTest, ACommandThatOvertookAnotherIsSentAgain) {
  std::vector<std::pair<Command, IncomingCall>> first;
  lead([&](const Command& command, IncomingCall call) {
    if (sequences_.last(kClient) > 0) {
      judge(command, std::move(call));
      return;
    }
    first.emplace_back(command, std::move(call));
    if (first.size() == 2) {
      judge(first[1].first, std::move(first[1].second));
      judge(first[0].first, std::move(first[0].second));
    }
  });
  lane_.send({.kind = CommandKind::Push}, {}, soon());
  lane_.send({.kind = CommandKind::Push}, {}, soon());
  EXPECT_EQ(lane_.flush(soon()).status, Status::Ok);
  EXPECT_EQ(sequences_.last(kClient), 2u);
}

// A leader that forgets what it has acknowledged.
TEST_F(LaneTest, CommandsThatALeaderHasLostAreNamed) {
  lead([&](const Command& command, IncomingCall call) {
    if (command.number <= 2) {
      answer(std::move(call), {});
      return;
    }
    judge(command, std::move(call));
  });
  for (int i = 0; i < 5; ++i) { // the later ones while 2 may be under way
    lane_.send({.kind = CommandKind::Push}, {}, soon());
  }
  try {
    lane_.flush(soon());
    FAIL() << "a loss was not noticed";
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::HasSubstr("region 0 has lost commands 1 to 2"));
  }
}

// A server that is slower than its workers costs them time, not memory.
TEST_F(LaneTest, WhoSendsWaitsForASlowLeader) {
  constexpr std::size_t kWindow = 8;
  std::mutex mutex;
  std::vector<IncomingCall> held;
  lead([&](const Command&, IncomingCall call) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(call));
  });
  const auto num_held = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  auto sending = std::async(std::launch::async, [&] {
    for (std::size_t i = 0; i <= kWindow; ++i) {
      lane_.send({.kind = CommandKind::Push}, {}, soon());
    }
  });
  const Deadline deadline = soon();
  while (num_held() < kWindow && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(
      sending.wait_for(std::chrono::milliseconds(100)),
      std::future_status::timeout);
  EXPECT_EQ(num_held(), kWindow);
  {
    const std::lock_guard lock(mutex);
    answer(std::move(held.front()), {});
  }
  sending.get();
  while (num_held() <= kWindow && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(num_held(), kWindow + 1);
  for (IncomingCall& call : held) {
    answer(std::move(call), {});
  }
  lane_.flush(soon());
}

} // namespace
} // namespace argosy::ps
