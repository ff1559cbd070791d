// What needs neither servers nor threads.

#include <gtest/gtest.h>

#include <fstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/key_plan.h"
#include "argosy/ps/client/row_cache.h"
#include "argosy/ps/service/command_log.h"
#include "argosy/ps/service/directory.h"
#include "argosy/ps/service/lineup.h"
#include "argosy/ps/service/messages.h"
#include "argosy/ps/service/rows_codec.h"
#include "argosy/ps/service/sequence.h"
#include "argosy/ps/service/table_spec.h"

namespace argosy::ps {
namespace {

TEST(KeyPlan, HasEachKeyOnceInTheRegionThatHoldsIt) {
  const ShardMap map{10, 3}; // regions have shards 0-3, 4-7, 8-9
  KeyPlan plan;
  KeyPlanner planner(map);
  planner.plan(std::vector<std::uint64_t>{9, 4, 9, 11, 0, 14, 4}, plan);
  EXPECT_EQ(plan.keys, (std::vector<std::uint64_t>{11, 0, 4, 14, 9}));
  EXPECT_EQ(plan.begin, (std::vector<std::size_t>{0, 2, 4, 5}));
  EXPECT_EQ(plan.position, (std::vector<std::uint32_t>{4, 2, 4, 0, 1, 3, 2}));
  planner.plan({}, plan);
  EXPECT_TRUE(plan.keys.empty());
}

TEST(KeyPlan, AddsGradientsOfEqualKeys) {
  KeyPlan plan;
  KeyPlanner({1, 1}).plan(std::vector<std::uint64_t>{5, 6, 5}, plan);
  std::vector<float> sums(4);
  sum_rows(plan, 2, std::vector<float>{1, 2, 3, 4, 10, 20}, sums);
  EXPECT_EQ(sums, (std::vector<float>{11, 22, 3, 4}));
}

TEST(Lineup, ChangesHaveAHigherEpoch) {
  const Lineup both{7, {0, 42}, Member{1, 43}};
  EXPECT_EQ(to_text(both), "7 0:42 1:43");
  EXPECT_EQ(lineup_of("7 0:42 1:43"), both);
  EXPECT_EQ(to_text(after_leader_lost(both)), "8 1:43 -");
  EXPECT_EQ(to_text(after_backup_lost(both)), "8 0:42 -");
  EXPECT_EQ(
      to_text(with_backup(lineup_of("8 0:42 -"), {1, 50})), "9 0:42 1:50");
  EXPECT_EQ(to_text(recovered_by(both, {0, 60})), "8 0:60 -");
  for (const char* bad : {"", "7", "7 0:42", "x 0:1 -", "7 0 -", "7 0:1 - 3"}) {
    EXPECT_THROW(lineup_of(bad), StoreError) << bad;
  }
}

TEST(ServerRecord, IsReadBack) {
  const ServerRecord record{12, "unix:x tcp:y 1", {{0, {3, 9}}, {2, {1, 0}}}};
  EXPECT_EQ(server_record_of(to_text(record)), record);
  EXPECT_THROW(server_record_of("12 5 1\nx"), StoreError);
}

TEST(Sequences, TellNewCommandsFromOldOnes) {
  Sequences sequences(2);
  using Verdict = Sequences::Verdict;
  EXPECT_EQ(sequences.judge(1, 1), Verdict::New);
  sequences.record(1, 1);
  EXPECT_EQ(sequences.judge(1, 1), Verdict::Duplicate);
  EXPECT_EQ(sequences.judge(1, 3), Verdict::Gap);
  sequences.record(2, 1);
  sequences.record(1, 2);
  sequences.record(3, 1); // client 2 was silent longest
  EXPECT_EQ(sequences.last(1), 2u);
  EXPECT_EQ(sequences.last(2), 0u);
  ByteWriter out;
  sequences.save(out);
  const std::string bytes = out.take();
  Sequences other;
  ByteReader in(bytes, "test");
  other.load(in);
  EXPECT_EQ(other.last(1), 2u);
  EXPECT_EQ(other.last(3), 1u);
}

TEST(Messages, AreReadBackAndRefusedWhenTheyAreDamaged) {
  const std::vector<std::uint64_t> keys = {1, 2, 3};
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  Command command{
      .region = 3, .client = 9, .number = 4, .worker = 1, .step = 8};
  command.sections.push_back(
      {.table = 5, .count = 3, .width = 2, .keys = keys, .values = values});
  const rpc::Message message = encode(command);
  const Command back = decode_command(message);
  EXPECT_EQ(back.region, 3u);
  EXPECT_EQ(back.step, 8);
  EXPECT_EQ(back.sections[0].keys.size(), 3u);
  EXPECT_EQ(back.sections[0].values[5], 6.0f);
  for (std::size_t size = 0; size < message.head.size(); ++size) {
    rpc::Message cut = message;
    cut.head.resize(size);
    EXPECT_THROW(decode_command(cut), InvalidArgument) << size;
  }
  rpc::Message wrong = message;
  wrong.parts[1].size -= 4;
  EXPECT_THROW(decode_command(wrong), InvalidArgument);
  wrong = message;
  wrong.parts.pop_back();
  EXPECT_THROW(decode_command(wrong), InvalidArgument);
  wrong = message;
  wrong.head += "x";
  EXPECT_THROW(decode_command(wrong), InvalidArgument);
}

TEST(TableSpec, IsReadBack) {
  TableSpec spec{.sparse = embedding_config(7, {.rule = Rule::Adam})};
  spec.sparse.name = "items";
  spec.sparse.ctr.save_filter_slots = {1, 2.5f};
  spec.sparse.entry = count_filter_entry(4);
  spec.sparse.seed = 77;
  EXPECT_EQ(decode_table(encode(spec)), spec);
  TableSpec dense{.is_dense = true, .dense_size = 10};
  dense.dense.rule = DenseRule::Adam;
  EXPECT_EQ(decode_table(encode(dense)), dense);
  EXPECT_THROW(decode_table("abc"), InvalidArgument);
  const JobSpec job{.num_workers = 5, .sync = false, .geo = true};
  EXPECT_EQ(decode_job(encode(job)), job);
}

TEST(RowsCodec, RefusesRowsBeyondTheirWords) {
  RowBatch rows;
  rows.add(4, 2)[1] = 3;
  rows.add(5, 1)[0] = 7;
  std::string bytes = encode_rows(rows);
  EXPECT_EQ(decode_rows(bytes), rows);
  bytes.pop_back();
  EXPECT_THROW(decode_rows(bytes), InvalidArgument);
  rows.ends[0] = 99;
  EXPECT_THROW(decode_rows(encode_rows(rows)), InvalidArgument);
}

std::vector<std::uint64_t> replayed(CommandLog& log) {
  std::vector<std::uint64_t> numbers;
  log.replay([&](std::uint64_t number, const rpc::Message& message) {
    EXPECT_EQ(message.head, str("command ", number));
    numbers.push_back(number);
  });
  return numbers;
}

rpc::Message command_number(int number) {
  return {
      str("command ", number),
      {rpc::Bytes::owned(std::string(static_cast<std::size_t>(number), 'x'))}};
}

TEST(CommandLog, SurvivesARecordThatWasNotWrittenToItsEnd) {
  const TempDir folder;
  {
    CommandLog log(folder.path(), 2, true);
    log.append(1, command_number(1));
    log.append(2, command_number(2));
  }
  const auto path = folder.path() / "region-2.0.log";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CommandLog log(folder.path(), 2, false);
  EXPECT_EQ(replayed(log), (std::vector<std::uint64_t>{1}));
  log.append(2, command_number(2));
  CommandLog again(folder.path(), 2, false);
  EXPECT_EQ(replayed(again), (std::vector<std::uint64_t>{1, 2}));
}

TEST(CommandLog, ASnapshotCountsWhenItIsComplete) {
  const TempDir folder;
  {
    CommandLog log(folder.path(), 0, false);
    log.append(1, command_number(1));
    log.begin_snapshot();
    log.append(2, command_number(2));
    log.write_snapshot("state");
  } // killed before the end
  {
    CommandLog log(folder.path(), 0, false);
    EXPECT_FALSE(log.read_snapshot());
    EXPECT_EQ(replayed(log), (std::vector<std::uint64_t>{1, 2}));
    log.begin_snapshot();
    log.write_snapshot("state");
    log.append(3, command_number(3));
    log.commit_snapshot();
  }
  CommandLog log(folder.path(), 0, false);
  EXPECT_EQ(log.read_snapshot(), "state");
  EXPECT_EQ(replayed(log), (std::vector<std::uint64_t>{3}));
  log.clear();
  EXPECT_EQ(log.bytes(), 0u);
}

TEST(RowCache, GivesRowsWithinTheirAgeAndForgetsTheOldest) {
  RowCache cache(2, 3, 1);
  std::vector<float> row(1);
  cache.put(1, 0, std::vector<float>{10});
  cache.put(2, 0, std::vector<float>{20});
  EXPECT_TRUE(cache.find(1, 3, row));
  EXPECT_EQ(row[0], 10);
  EXPECT_FALSE(cache.find(1, 4, row)); // too old
  cache.put(3, 4, std::vector<float>{30});
  EXPECT_FALSE(cache.find(2, 1, row)); // was used least recently
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.hits(), 1u);
  EXPECT_EQ(cache.misses(), 2u);
  EXPECT_EQ(cache.oldest_hit(), 3);
}

} // namespace
} // namespace argosy::ps
