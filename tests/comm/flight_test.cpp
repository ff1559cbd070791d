// The flight recorder without torch: what it remembers, what it writes, and who
// is blamed for what does not end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/live_hang.h"
#include "argosy/comm/flight/live_jobs.h"
#include "argosy/comm/flight/record_files.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"

namespace argosy::comm::flight {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Side side(std::vector<std::int64_t> dims) {
  Side made{
      .num_tensors = 1,
      .num_dims = static_cast<std::uint32_t>(dims.size()),
      .elements = 1};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    made.elements *= dims[i];
    if (i < Side::kMostDims) {
      made.dims[i] = dims[i];
    }
  }
  return made;
}

Call all_reduce_of(std::vector<std::int64_t> dims) {
  return {.kind = OpKind::AllReduce, .in = side(std::move(dims))};
}

Call message(OpKind kind, int peer, std::int64_t elements = 4) {
  return {.kind = kind, .root = peer, .in = side({elements})};
}

// ---- Recorder ---------------------------------------------------------------

TEST(Recorder, NotesWhatBecomesOfAnOperation) {
  Recorder recorder;
  const auto group = recorder.add_group(3, {0, 2, 5});
  const auto first = recorder.issue(*group, all_reduce_of({3, 4}));
  const auto second = recorder.issue(*group, {.kind = OpKind::Barrier});
  const auto third = recorder.issue(*group, message(OpKind::Send, 5));
  const auto fourth = recorder.issue(*group, message(OpKind::Recv, 5));
  recorder.start(first);
  recorder.complete(first);
  recorder.start(second);
  recorder.fail(second, "rank 2 did not come");
  recorder.start(third);
  const Record record = recorder.snapshot();
  ASSERT_EQ(record.operations.size(), 4u);
  const auto& operations = record.operations;
  EXPECT_EQ(operations[0].state, State::Completed);
  EXPECT_EQ(operations[0].call, all_reduce_of({3, 4}));
  EXPECT_LE(operations[0].issued_us, operations[0].started_us);
  EXPECT_LE(operations[0].started_us, operations[0].ended_us);
  EXPECT_LE(operations[0].ended_us, record.time_us);
  EXPECT_EQ(operations[1].state, State::Failed);
  EXPECT_EQ(operations[1].error, "rank 2 did not come");
  EXPECT_EQ(operations[1].sequence, 1u);
  EXPECT_EQ(operations[2].state, State::Started);
  EXPECT_EQ(operations[2].sequence, 0u);
  EXPECT_EQ(operations[2].ended_us, 0);
  EXPECT_EQ(operations[3].state, State::Issued);
  EXPECT_EQ(operations[3].sequence, 0u) << "directions count apart";
  EXPECT_EQ(operations[3].started_us, 0);
  EXPECT_THAT(
      record.groups,
      ElementsAre(GroupCounts{
          3, {0, 2, 5}, 2, {{.peer = 5, .sent = 1, .received = 1}}}));
  recorder.complete(fourth);
}

TEST(Labels, AreEqualWhenTheirTextsAreAndNest) {
  EXPECT_TRUE(OpLabel().empty());
  EXPECT_TRUE(OpLabel("").empty());
  EXPECT_EQ(OpLabel("a"), OpLabel(std::string("a")));
  EXPECT_NE(OpLabel("a"), OpLabel("b"));
  {
    const LabelScope outer(OpLabel("a"));
    {
      const LabelScope inner(OpLabel("b"));
      EXPECT_EQ(LabelScope::current().text(), "b");
      const LabelScope none{OpLabel()};
      EXPECT_EQ(LabelScope::current().text(), "b");
      std::thread([] { EXPECT_TRUE(LabelScope::current().empty()); }).join();
    }
    EXPECT_EQ(LabelScope::current().text(), "a");
  }
  EXPECT_TRUE(LabelScope::current().empty());
}

TEST(Recorder, KeepsTheLastAndAllThatAreUnderWay) {
  Recorder recorder;
  const auto group = recorder.add_group(0, {0});
  const auto stuck = recorder.issue(*group, all_reduce_of({7}));
  recorder.start(stuck);
  for (int i = 0; i < 5000; ++i) {
    const auto ticket = recorder.issue(*group, {.kind = OpKind::Barrier});
    recorder.start(ticket);
    recorder.complete(ticket);
  }
  const Record record = recorder.snapshot();
  ASSERT_EQ(record.operations.size(), Recorder::kCapacity);
  EXPECT_EQ(record.operations.front().sequence, 0u);
  EXPECT_EQ(record.operations.front().state, State::Started);
  EXPECT_EQ(record.operations.back().sequence, 5000u);
  EXPECT_EQ(record.operations[1].sequence, 5000u - Recorder::kCapacity + 2);
  EXPECT_EQ(record.groups[0].collectives, 5001u);
}

TEST(Recorder, GoesOnWhenTooManyAreUnderWay) {
  Recorder recorder;
  const auto group = recorder.add_group(0, {0});
  std::vector<Recorder::Ticket> tickets;
  for (std::size_t i = 0; i < Recorder::kCapacity + 10; ++i) {
    tickets.push_back(recorder.issue(*group, {.kind = OpKind::Barrier}));
  }
  for (const auto& ticket : tickets) {
    recorder.start(ticket);
    recorder.complete(ticket);
  }
  EXPECT_EQ(recorder.snapshot().operations.size(), Recorder::kCapacity);
  const auto next = recorder.issue(*group, {.kind = OpKind::Barrier});
  EXPECT_LT(next.slot, Recorder::kCapacity);
}

TEST(Recorder, IsReadWhileOthersWrite) {
  Recorder recorder;
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      const auto group = recorder.add_group(w, {0, 1});
      for (int i = 0; i < 20000; ++i) {
        const auto ticket = recorder.issue(*group, all_reduce_of({i, w}));
        recorder.start(ticket);
        i % 7 == 0 ? recorder.fail(ticket, std::string(40, 'a' + w))
                   : recorder.complete(ticket);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    for (const Operation& operation : recorder.snapshot().operations) {
      const int w = operation.group;
      ASSERT_EQ(operation.call.in.dims[1], w) << "a mixture of two";
      ASSERT_EQ(
          operation.call.in.dims[0],
          static_cast<std::int64_t>(operation.sequence));
      if (operation.state == State::Failed) {
        ASSERT_EQ(operation.error, std::string(40, 'a' + w));
      }
    }
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
}

// ---- Records ----------------------------------------------------------------

// A rank's record, made by hand.
class Scene {
 public:
  Scene(int rank, int world_size) {
    record_.rank = rank;
    record_.world_size = world_size;
    record_.time_us = 1'000'000'000;
  }

  Scene& group(int id, std::vector<int> ranks) {
    record_.groups.push_back({.id = id, .ranks = std::move(ranks)});
    return *this;
  }

  Scene& op(int group, Call call, State state) {
    Operation operation{
        .number = record_.operations.size(),
        .group = group,
        .call = call,
        .state = state,
        .issued_us = 10,
        .started_us = state == State::Issued ? 0 : 20,
        .ended_us = state >= State::Completed ? 30 : 0,
        .error = state == State::Failed ? "did not come" : ""};
    for (GroupCounts& counts : record_.groups) {
      if (counts.id == group) {
        operation.sequence = next(counts, call)++;
      }
    }
    record_.operations.push_back(operation);
    return *this;
  }

  Record get() const { return record_; }

 private:
  static std::uint64_t& next(GroupCounts& counts, const Call& call) {
    if (!is_pairwise(call.kind)) {
      return counts.collectives;
    }
    for (auto& with : counts.messages) {
      if (with.peer == call.root) {
        return call.kind == OpKind::Send ? with.sent : with.received;
      }
    }
    counts.messages.push_back({.peer = call.root});
    return next(counts, call);
  }

  Record record_;
};

std::string text_of(const HangReport& report) {
  std::ostringstream out;
  out << report;
  return out.str();
}

TEST(FlightRecord, ReadsBackWhatItWrote) {
  Record record =
      Scene(1, 4)
          .group(0, {0, 1, 2, 3})
          .op(0, all_reduce_of({1, 2, 3, 4, 5, 6, 7}), State::Failed)
          .op(0, message(OpKind::Recv, 2), State::Started)
          .get();
  record.host = "node7";
  record.reason = "\xff is no UTF-8";
  record.operations[0].call.reduce = ReduceOp::BXOR;
  record.operations[0].call.dtype = DType::Int64;
  record.operations[0].call.label = OpLabel("gradients, bucket 0");
  Record expected = record;
  expected.reason = "\xef\xbf\xbd is no UTF-8";
  EXPECT_EQ(parse_record(to_json(record), "x"), expected);
}

TEST(FlightRecord, SaysWhichFileIsNone) {
  for (const char* text : {"", "{}", "[]", R"({"version": 99})"}) {
    try {
      parse_record(text, "dir/flight_rank_0.json");
      ADD_FAILURE() << text;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("dir/flight_rank_0.json"));
    }
  }
}

TEST(FlightRecord, FoldersOfRunsStandForTheirLastAttempt) {
  const TempDir dir;
  const auto write = [&](const std::string& attempt, int rank, int restarts) {
    std::filesystem::create_directories(dir.path() / attempt);
    Record record = Scene(rank, 2).get();
    record.restart_count = restarts;
    record.time_us += restarts;
    write_file(
        dir.path() / attempt / flight_record_name(rank), to_json(record));
  };
  write("attempt_2", 0, 2);
  write("attempt_10", 1, 10);
  std::filesystem::create_directories(dir.path() / "attempt_11");
  auto records = read_records({dir.path()});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].restart_count, 10);
  write("attempt_10", 0, 9);
  records = read_records({dir.path() / "attempt_10"});
  ASSERT_EQ(records.size(), 1u) << "the other is of an earlier job";
  EXPECT_THROW(read_records({dir.path() / "none"}), InvalidArgument);
  EXPECT_THROW(
      read_records({dir.path() / "attempt_10", dir.path()}), InvalidArgument)
      << "twice the same rank";
}

// ---- Who is to blame --------------------------------------------------------

TEST(Hang, NamesTheRankThatDidNotCome) {
  const Call reduce = all_reduce_of({4, 3});
  const Call barrier{.kind = OpKind::Barrier};
  const auto caller = [&](int rank) {
    return Scene(rank, 3)
        .group(0, {0, 1, 2})
        .op(0, barrier, State::Completed)
        .op(0, reduce, State::Failed)
        .get();
  };
  const Record skips =
      Scene(1, 3).group(0, {0, 1, 2}).op(0, barrier, State::Completed).get();
  const HangReport report = find_hang({caller(0), skips, caller(2)});
  EXPECT_THAT(report.culprits, ElementsAre(1));
  EXPECT_THAT(report.circle, IsEmpty());
  ASSERT_EQ(report.stalls.size(), 1u);
  const Stall& stall = report.stalls[0];
  EXPECT_EQ(stall.sequence, 1u);
  ASSERT_EQ(stall.waiting.size(), 2u);
  EXPECT_EQ(stall.waiting[1].rank, 2);
  ASSERT_EQ(stall.absent.size(), 1u);
  EXPECT_EQ(stall.absent[0].last->call, barrier);
  const std::string text = text_of(report);
  EXPECT_THAT(
      text, HasSubstr("collective 1: all_reduce of float32 [4, 3], sum"));
  EXPECT_THAT(text, HasSubstr("rank 1 NEVER CALLED IT"));
  EXPECT_THAT(text, HasSubstr("The others wait for rank 1."));
  EXPECT_THAT(to_json(report), HasSubstr("\"culprits\": [\n    1\n  ]"));
}

TEST(Hang, NamesARankWithoutARecord) {
  const auto caller = [](int rank) {
    return Scene(rank, 3)
        .group(0, {0, 1, 2})
        .op(0, all_reduce_of({1}), State::Started)
        .get();
  };
  const HangReport report = find_hang({caller(0), caller(1)});
  EXPECT_THAT(report.unrecorded, ElementsAre(2));
  EXPECT_THAT(report.culprits, ElementsAre(2));
  EXPECT_THAT(text_of(report), HasSubstr("rank 2 LEFT NO RECORD"));
}

TEST(Hang, NamesTheMinorityOfADisagreement) {
  const auto caller = [](int rank, const Call& call) {
    return Scene(rank, 3).group(0, {0, 1, 2}).op(0, call, State::Failed).get();
  };
  HangReport report = find_hang(
      {caller(0, all_reduce_of({12})),
       caller(1, all_reduce_of({3, 4})), // as many elements
       caller(2, {.kind = OpKind::Barrier})});
  EXPECT_THAT(report.stalls[0].differ, ElementsAre(2));
  EXPECT_THAT(report.culprits, ElementsAre(2));
  report = find_hang(
      {caller(0, all_reduce_of({12})),
       caller(1, all_reduce_of({12})),
       caller(2, all_reduce_of({11}))});
  EXPECT_THAT(report.culprits, ElementsAre(2));
  EXPECT_THAT(
      text_of(report),
      HasSubstr("rank 2 CALLED SOMETHING ELSE, all_reduce of float32 [11]"));
  report = find_hang(
      {caller(0, all_reduce_of({1})),
       caller(1, all_reduce_of({2})),
       caller(2, all_reduce_of({3}))});
  EXPECT_THAT(report.culprits, ElementsAre(0, 1, 2)) << "nobody has a majority";
}

TEST(Hang, FollowsTheChainToItsEnd) {
  // Rank 2 is at nothing; rank 1 waits for it in group 1, rank 0 for 1 in 0.
  const Call call = all_reduce_of({1});
  const Record zero =
      Scene(0, 3).group(0, {0, 1}).op(0, call, State::Started).get();
  const Record one = Scene(1, 3)
                         .group(0, {0, 1})
                         .group(1, {1, 2})
                         .op(1, call, State::Started)
                         .get();
  const Record two = Scene(2, 3).group(1, {1, 2}).get();
  const HangReport report = find_hang({zero, one, two});
  ASSERT_EQ(report.stalls.size(), 2u);
  EXPECT_THAT(report.stalls[0].blamed(), ElementsAre(1));
  EXPECT_EQ(report.stalls[0].absent[0].waits_in->group, 1);
  EXPECT_THAT(report.culprits, ElementsAre(2));
}

TEST(Hang, SeesACircle) {
  // The same two groups, in another order on each rank.
  const Call call = all_reduce_of({1});
  const auto made = [&](int rank, int group) {
    return Scene(rank, 2)
        .group(0, {0, 1})
        .group(1, {0, 1})
        .op(group, call, State::Started)
        .get();
  };
  const HangReport report = find_hang({made(0, 0), made(1, 1)});
  EXPECT_THAT(report.circle, ElementsAre(0, 1));
  EXPECT_THAT(report.culprits, ElementsAre(0, 1));
  EXPECT_THAT(text_of(report), HasSubstr("in a circle: ranks 0, 1"));
}

TEST(Hang, BlamesWhoLeftTheOthersInACircle) {
  const Call call = all_reduce_of({1});
  const auto made = [&](int rank, int group) {
    return Scene(rank, 3)
        .group(0, {0, 1, 2})
        .group(1, {0, 1, 2})
        .op(group, call, State::Started)
        .get();
  };
  const HangReport report = find_hang({made(0, 0), made(1, 1), made(2, 0)});
  EXPECT_THAT(report.circle, ElementsAre(0, 1, 2));
  EXPECT_THAT(report.culprits, ElementsAre(1));
  EXPECT_THAT(text_of(report), HasSubstr("most wait for rank 1."));
}

TEST(Hang, FindsMessagesWithoutAPartner) {
  const auto scene = [](int rank) { return Scene(rank, 2).group(0, {0, 1}); };
  // A recv that nobody sends to.
  HangReport report = find_hang(
      {scene(0).get(),
       scene(1).op(0, message(OpKind::Recv, 0), State::Started).get()});
  ASSERT_EQ(report.stalls.size(), 1u);
  EXPECT_TRUE(report.stalls[0].is_message);
  EXPECT_THAT(report.stalls[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(report.culprits, ElementsAre(0));
  EXPECT_THAT(text_of(report), HasSubstr("Message 0 from rank 0 to rank 1"));
  // A send that nobody receives, after one that was.
  report = find_hang(
      {scene(0)
           .op(0, message(OpKind::Send, 1), State::Completed)
           .op(0, message(OpKind::Send, 1), State::Started)
           .get(),
       scene(1).op(0, message(OpKind::Recv, 0), State::Completed).get()});
  EXPECT_EQ(report.stalls[0].sequence, 1u);
  EXPECT_THAT(report.culprits, ElementsAre(1));
  EXPECT_THAT(report.unreceived, ElementsAre(Unreceived{0, 0, 1, 1, 1}));
  // Both there, of other sizes.
  report = find_hang(
      {scene(0).op(0, message(OpKind::Send, 1, 5), State::Failed).get(),
       scene(1).op(0, message(OpKind::Recv, 0, 4), State::Failed).get()});
  EXPECT_THAT(report.stalls[0].differ, ElementsAre(0, 1));
  EXPECT_THAT(report.culprits, ElementsAre(0, 1));
}

TEST(Hang, NothingHangsWhenAllCompleted) {
  const auto made = [](int rank) {
    return Scene(rank, 2)
        .group(0, {0, 1})
        .op(0, all_reduce_of({1}), State::Completed)
        .get();
  };
  const HangReport report = find_hang({made(0), made(1)});
  EXPECT_THAT(report.stalls, IsEmpty());
  EXPECT_THAT(report.culprits, IsEmpty());
  EXPECT_THAT(text_of(report), HasSubstr("Nothing hangs"));
}

TEST(Hang, NobodyIsBlamedWhenAllCallAlike) {
  const auto made = [](int rank, State state) {
    return Scene(rank, 2)
        .group(0, {0, 1})
        .op(0, all_reduce_of({1}), state)
        .get();
  };
  const HangReport report =
      find_hang({made(0, State::Completed), made(1, State::Failed)});
  ASSERT_EQ(report.stalls.size(), 1u);
  EXPECT_EQ(report.stalls[0].passed.size(), 1u);
  EXPECT_THAT(report.culprits, IsEmpty());
}

// ---- Files ------------------------------------------------------------------

TEST(BlackBox, WritesWhenAnOperationFailsAndAsksTheOthers) {
  const TempDir dir;
  const auto box_of = [&](int rank) {
    return std::make_shared<BlackBox>(
        Identity{.rank = rank, .world_size = 2},
        BlackBoxOptions{.folder = dir.path()});
  };
  const std::vector<int> ranks = {0, 1};
  const GroupRecorder there(box_of(1), 0, ranks);
  GroupRecorder here(box_of(0), 0, ranks);
  const Observers<1> observers{&here};
  EXPECT_THROW(
      ObservedOperation(observers, all_reduce_of({2}), ranks).run([] {
        throw TimeoutError("rank 1 did not come");
      }),
      TimeoutError);
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (read_records({dir.path()}).size() < 2 && !deadline.expired()) {
    std::this_thread::yield();
  }
  const auto records = read_records({dir.path()});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_THAT(records[0].reason, HasSubstr("rank 1 did not come"));
  EXPECT_THAT(find_hang(records).culprits, ElementsAre(1));
}

TEST(BlackBox, AnswersWhoAsks) {
  const TempDir dir;
  const auto box = std::make_shared<BlackBox>(
      Identity{.rank = 0, .world_size = 1},
      BlackBoxOptions{.folder = dir.path()});
  GroupRecorder(box, 0, {0}).on_issue(all_reduce_of({2}), {0});
  renew_records({dir.path()}, Deadline::after(std::chrono::seconds(20)));
  const auto records = read_records({dir.path()});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].operations.size(), 1u);
}

TEST(BlackBox, WithoutAFolderWritesOnlyWhatIsAskedFor) {
  const TempDir dir;
  BlackBox box({.rank = 3, .world_size = 4}, {});
  box.abort("disk full");
  box.write(dir.path() / "x.json");
  const Record record =
      parse_record(read_file(dir.path() / "x.json").value(), "x");
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.reason, "the rank gave up: disk full");
}

TEST(BlackBox, TellsTheLauncherOfALongWait) {
  const TempDir dir;
  const auto box = std::make_shared<BlackBox>(
      Identity{.rank = 1, .world_size = 2},
      BlackBoxOptions{
          .folder = dir.path(),
          .warning_after = std::chrono::milliseconds(60),
          .launcher_warns = true});
  GroupRecorder recorder(box, 0, {0, 1});
  const auto token = recorder.on_issue(all_reduce_of({2}), {0, 1});
  recorder.on_start(token);
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (!std::filesystem::exists(dir.path() / kFlightHangName) &&
         !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(std::filesystem::exists(dir.path() / kFlightHangName));
  EXPECT_TRUE(has_flight_wait(dir.path()));
  const auto described = [&](std::chrono::milliseconds at_least) {
    return describe_hang({collect_records(dir.path(), 1)}, at_least);
  };
  EXPECT_THAT(
      described(std::chrono::milliseconds(1)),
      HasSubstr("all_reduce of float32 [2], sum (collective 0 of group 0): "
                "rank 1 waits since "));
  EXPECT_EQ(described(std::chrono::hours(1)), "");
  recorder.on_end(token, nullptr);
  while (has_flight_wait(dir.path()) && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(has_flight_wait(dir.path()));
  EXPECT_EQ(described(std::chrono::milliseconds(1)), "");
}

// Two hosts whose clocks differ by an hour; only the second one's rank waits
// for long. A folder that both see has a record twice.
TEST(Describe, TakesTheRecordsOfSeveralHosts) {
  const auto record = [](int rank, std::int64_t time_us, std::int64_t since) {
    Record made{.rank = rank, .world_size = 3, .time_us = time_us};
    made.groups = {{.id = 0, .ranks = {0, 1, 2}, .collectives = 1}};
    if (since > 0) {
      made.operations = {
          {.call = all_reduce_of({2}),
           .state = State::Started,
           .issued_us = time_us - since,
           .started_us = time_us - since}};
    } else {
      made.groups[0].collectives = 0;
    }
    return to_json(made);
  };
  constexpr std::int64_t kSecond = 1'000'000;
  constexpr std::int64_t kHour = 3600 * kSecond;
  const std::string first =
      record(0, 2 * kHour, kSecond) + record(1, 2 * kHour, 0);
  const std::string second = record(2, kHour, 5 * kSecond);
  const std::string stale = record(2, kHour - kSecond, 0);
  const auto described = [&](int seconds) {
    return describe_hang({first, second, stale}, std::chrono::seconds(seconds));
  };
  EXPECT_THAT(described(4), HasSubstr("ranks 0, 2 wait since "));
  EXPECT_THAT(described(4), HasSubstr("The others wait for rank 1."));
  EXPECT_EQ(described(6), "");
  EXPECT_EQ(describe_hang({"", ""}, std::chrono::seconds(1)), "");
}

// ---- Jobs -------------------------------------------------------------------

// A process as the system shows it.
void add_process(
    const std::filesystem::path& processes,
    int pid,
    const std::vector<std::string>& environment,
    const std::string& program) {
  const auto folder = processes / std::to_string(pid);
  std::filesystem::create_directories(folder);
  std::string strings;
  for (const std::string& entry : environment) {
    strings += entry + '\0';
  }
  write_file(folder / "environ", strings);
  write_file(folder / "cmdline", program + '\0');
}

TEST(LiveJobs, AreFoundByTheEnvironmentOfTheirRanks) {
  const TempDir dir;
  const auto rank = [](int number, const std::string& folder) {
    return std::vector<std::string>{
        "ARGOSY_FLIGHT_DIR=" + folder,
        "RANK=" + std::to_string(number),
        "WORLD_SIZE=4",
        "LOCAL_RANK=0",
        "LOCAL_WORLD_SIZE=4",
        "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=29500"};
  };
  add_process(dir.path(), 30, rank(0, "/b"), "./train");
  add_process(dir.path(), 31, rank(0, "/b"), "started by ./train");
  add_process(dir.path(), 32, rank(1, "/b"), "./train");
  add_process(dir.path(), 40, rank(3, "/a x"), "./other");
  add_process(dir.path(), 50, {"ARGOSY_FLIGHT_DIR=/b"}, "argosy run");
  add_process(dir.path(), 60, {"HOME=/"}, "sh");
  const auto jobs = live_jobs(dir.path());
  EXPECT_THAT(
      jobs,
      ElementsAre(
          LiveJob{"/a x", "./other", {3}, 4},
          LiveJob{"/b", "./train", {0, 1}, 4}));
  std::ostringstream text;
  text << jobs;
  EXPECT_EQ(
      text.str(),
      "./other: rank 3 of 4\n  argosy trace hang --fresh '/a x'\n"
      "./train: ranks 0, 1 of 4\n  argosy trace hang --fresh /b\n");
}

} // namespace
} // namespace argosy::comm::flight
