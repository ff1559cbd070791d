#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "tests/ps/plain_table.h"
#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using testing::Keys;
using testing::push;
using testing::range;
using testing::RowMap;
using testing::rows_of;

SparseConfig small_config() {
  SparseConfig config;
  config.embedx_dim = 3;
  config.embedx_threshold = 2;
  config.entry = count_filter_entry(2);
  return config;
}

// Random pushes, so that rows are created, change, get embedx.
void traffic(Partition& table, std::mt19937& random, std::size_t count) {
  Keys keys(count);
  std::generate(keys.begin(), keys.end(), [&] { return random() % 3000; });
  push(table, keys, static_cast<float>(1 + random() % 3), random() % 2);
}

Keys save_keys(Partition& table, SaveMode mode) {
  RowBatch batch;
  table.begin_snapshot(mode);
  while (table.next_slice(100, batch)) {
  }
  table.commit_snapshot();
  std::sort(batch.keys.begin(), batch.keys.end());
  return batch.keys;
}

TEST(Snapshot, IsAConsistentCutBesideTraffic) {
  std::mt19937 random(5);
  Partition table(small_config());
  for (int round = 0; round < 20; ++round) {
    traffic(table, random, 400);
    const RowMap before = rows_of(table);
    RowBatch cut;
    table.begin_snapshot(SaveMode::Checkpoint);
    std::size_t seen = 0;
    while (table.next_slice(1 + random() % 150, cut)) {
      ASSERT_LE(cut.size() - seen, 150u);
      seen = cut.size();
      traffic(table, random, 30);
      if (random() % 4 == 0) {
        table.shrink_slice(200); // rows decay and go meanwhile
      }
    }
    table.commit_snapshot();
    RowMap rows;
    testing::add_rows(cut, rows);
    ASSERT_EQ(cut.size(), rows.size()); // each once
    ASSERT_EQ(rows, before);
  }
}

TEST(Snapshot, BringsATableBackExactly) {
  for (const auto accessor :
       {Accessor::CtrCommon, Accessor::CtrDouble, Accessor::Sparse}) {
    SparseConfig config = small_config();
    config.accessor = accessor;
    config.embedx_rule.rule = Rule::Adam;
    std::mt19937 random(6);
    Partition table(config);
    for (int i = 0; i < 10; ++i) {
      traffic(table, random, 500);
      table.end_day();
    }
    Partition copy(config);
    copy.end_day(); // days are counted from the copy's own
    RowBatch batch;
    for (const auto& [key, words] : rows_of(table)) {
      const auto to = batch.add(key, words.size());
      std::copy(words.begin(), words.end(), to.begin());
    }
    copy.import_rows(batch);
    EXPECT_EQ(rows_of(copy), rows_of(table));
    std::mt19937 same = random;
    traffic(table, random, 700);
    traffic(copy, same, 700);
    EXPECT_EQ(rows_of(copy), rows_of(table));
  }
}

// A job that goes on from such a save has the days of one that was not stopped.
TEST(Snapshot, TheEndOfADayIsSavedAsTheNextDayBegins) {
  Partition table(small_config());
  push(table, range(0, 20), 3);
  table.end_day();
  push(table, range(10, 30), 3);
  RowBatch saved;
  table.begin_snapshot(SaveMode::BatchModel);
  while (table.next_slice(7, saved)) {
  }
  table.commit_snapshot();
  Partition loaded(small_config());
  loaded.import_rows(saved);
  EXPECT_EQ(rows_of(loaded), rows_of(table));
}

TEST(Snapshot, ModesChooseRowsAsThePlainTableDoes) {
  SparseConfig config = small_config();
  config.entry = {};
  Partition table(config);
  testing::PlainTable plain(config);
  const testing::Floats initial(3);
  const auto both = [&](const Keys& keys, float show, float click) {
    push(table, keys, show, click);
    for (const std::uint64_t key : keys) {
      plain.push(
          key, testing::records(table.layout(), 1, show, click, 1), initial);
    }
  };
  both(range(0, 30), 20, 1);
  both(range(20, 50), 3, 0);
  EXPECT_EQ(save_keys(table, SaveMode::Delta), plain.saved(0.25));
  EXPECT_EQ(save_keys(table, SaveMode::Delta), plain.saved(0.25));
  both(range(25, 27), 10, 2);
  EXPECT_EQ(save_keys(table, SaveMode::Delta), plain.saved(0.25));
  EXPECT_EQ(save_keys(table, SaveMode::Base), plain.saved(0));
  both(range(0, 5), 1, 1);
  for (int day = 0; day < 17; ++day) {
    EXPECT_EQ(save_keys(table, SaveMode::BatchModel).size(), 50u);
    plain.end_day();
  }
  both(range(2, 4), 1, 1);
  const Keys kept = plain.saved(0);
  EXPECT_EQ(kept, range(2, 4)); // the others were not seen for 17 days
  EXPECT_EQ(save_keys(table, SaveMode::Base), kept);
}

TEST(Snapshot, ASaveThatFailedSavesTheSameAgain) {
  Partition table(small_config());
  push(table, range(0, 500), 40, 1);
  const RowMap before = rows_of(table);
  for (const auto mode :
       {SaveMode::Delta, SaveMode::Base, SaveMode::BatchModel}) {
    RowBatch some;
    table.begin_snapshot(mode);
    table.next_slice(200, some);
    table.abort_snapshot();
    EXPECT_EQ(rows_of(table), before);
  }
  EXPECT_EQ(save_keys(table, SaveMode::Delta), range(0, 500));
  EXPECT_EQ(save_keys(table, SaveMode::Delta), Keys{});
}

TEST(Snapshot, KeepsWhatComesToADeltaWhileItIsSaved) {
  Partition table(small_config());
  push(table, range(0, 100), 40, 1);
  RowBatch saved;
  table.begin_snapshot(SaveMode::Delta);
  table.next_slice(50, saved);
  push(table, range(0, 100), 10, 1); // visited rows and others
  while (table.next_slice(50, saved)) {
  }
  table.commit_snapshot();
  EXPECT_EQ(saved.size(), 100u);
  const int at = table.layout().delta_score;
  for (const auto& [key, words] : rows_of(table)) {
    EXPECT_NEAR(words[static_cast<std::size_t>(at)], 1.9, 1e-5) << key;
  }
}

TEST(Snapshot, OneAtATime) {
  Partition table(small_config());
  RowBatch rows;
  EXPECT_THROW(table.next_slice(1, rows), InvalidArgument);
  EXPECT_THROW(table.commit_snapshot(), InvalidArgument);
  table.abort_snapshot();
  table.begin_snapshot(SaveMode::Checkpoint);
  EXPECT_THROW(table.begin_snapshot(SaveMode::Delta), InvalidArgument);
  EXPECT_FALSE(table.next_slice(10, rows)); // an empty table
  EXPECT_THROW(save_mode(4), InvalidArgument);
}

TEST(Snapshot, FiltersSlots) {
  SparseConfig config = small_config();
  config.ctr.save_filter_slots = {5};
  config.ctr.load_filter_slots = {5};
  Partition table(config);
  push(table, {1}, 40, 1); // slot 5
  EXPECT_EQ(save_keys(table, SaveMode::Base), Keys{});
  EXPECT_EQ(save_keys(table, SaveMode::Checkpoint), Keys{1});
  RowBatch rows;
  table.begin_snapshot(SaveMode::Checkpoint);
  table.next_slice(1, rows);
  Partition other(config);
  other.import_rows(rows);
  EXPECT_EQ(other.stat().rows, 0u);
}

TEST(Snapshot, RowsOfAWrongSizeAreRefused) {
  Partition table(small_config());
  RowBatch rows;
  rows.add(7, 4);
  EXPECT_THAT(
      [&] { table.import_rows(rows); },
      ::testing::ThrowsMessage<InvalidArgument>(
          ::testing::HasSubstr("the row of key 7 has 4 words")));
}

TEST(Shrink, InSlicesBesideTrafficDecaysEachRowOnce) {
  SparseConfig config = small_config();
  config.entry = {};
  config.ctr.show_click_decay_rate = 0.5;
  config.ctr.delete_threshold = 0;
  config.embedx_threshold = 15;
  Partition table(config);
  push(table, range(0, 1000), 100, 0); // score 10
  bool more = true;
  for (std::uint64_t key = 0; more; ++key) {
    more = table.shrink_slice(10);
    // Gives embedx to rows before and behind the round.
    push(table, {key * 37 % 1000, 999 - key * 11 % 1000}, 0, 6);
    push(table, {1000 + key}, 100, 0); // new rows are not part of the round
  }
  const int at = table.layout().show;
  for (const auto& [key, words] : rows_of(table)) {
    const float show = words[static_cast<std::size_t>(at)];
    EXPECT_EQ(show, key < 1000 ? 50 : 100) << key;
  }
  EXPECT_GT(table.stat().full_rows, 0u);
}

} // namespace
} // namespace argosy::ps
