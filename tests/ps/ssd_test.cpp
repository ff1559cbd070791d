#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using testing::Keys;
using testing::pull;
using testing::push;
using testing::range;
using testing::rows_of;

SparseConfig ssd_config(const TempDir& folder, std::size_t rows) {
  SparseConfig config;
  config.embedx_dim = 4;
  config.embedx_threshold = 2;
  config.on_ssd = true;
  config.ssd.folder = folder.path().string();
  config.ssd.max_rows_in_memory = rows;
  return config;
}

SparseConfig in_memory(SparseConfig config) {
  config.on_ssd = false;
  return config;
}

TEST(Ssd, GivesWhatATableInMemoryGives) {
  const TempDir folder("argosy_ssd");
  const SparseConfig config = ssd_config(folder, 100);
  Partition table(config);
  Partition plain(in_memory(config));
  std::mt19937 random(1);
  for (int step = 0; step < 300; ++step) {
    Keys keys(1 + random() % 60);
    for (std::uint64_t& key : keys) {
      key = random() % 1000;
    }
    push(table, keys, 2, step % 2);
    push(plain, keys, 2, step % 2);
    for (std::uint64_t& key : keys) {
      key = random() % 1100;
    }
    ASSERT_EQ(pull(table, keys), pull(plain, keys)) << step;
    const PartitionStat stat = table.stat();
    ASSERT_EQ(stat.rows, plain.stat().rows);
    ASSERT_LE(stat.rows - stat.disk_rows, 100u);
    if (step % 50 == 49) {
      table.end_day();
      plain.end_day();
      table.shrink();
      plain.shrink();
    }
  }
  EXPECT_GT(table.stat().disk_hits, 1000u);
  EXPECT_EQ(rows_of(table), rows_of(plain));
}

TEST(Ssd, HotRowsStayInMemory) {
  const TempDir folder("argosy_ssd");
  Partition table(ssd_config(folder, 200));
  push(table, range(0, 2000), 1);
  const Keys hot = range(0, 100);
  pull(table, hot);
  const std::uint64_t before = table.stat().disk_hits;
  for (std::uint64_t cold = 500; cold < 1500; cold += 10) {
    pull(table, hot);
    pull(table, range(cold, cold + 10));
  }
  // Those of the cold ones, and few others.
  EXPECT_LT(table.stat().disk_hits - before, 1300u);
}

TEST(Ssd, SnapshotsAreConsistentWhileRowsMove) {
  const TempDir folder("argosy_ssd");
  Partition table(ssd_config(folder, 150));
  push(table, range(0, 600), 30, 1);
  std::mt19937 random(2);
  for (const auto mode : {SaveMode::Checkpoint, SaveMode::Base}) {
    const auto before = rows_of(table);
    RowBatch cut;
    table.begin_snapshot(mode);
    while (table.next_slice(40, cut)) {
      Keys keys(30);
      for (std::uint64_t& key : keys) {
        key = random() % 700;
      }
      push(table, keys, 1);
      pull(table, keys);
    }
    table.commit_snapshot();
    testing::RowMap rows;
    testing::add_rows(cut, rows);
    EXPECT_EQ(cut.size(), rows.size());
    if (mode == SaveMode::Checkpoint) {
      EXPECT_EQ(rows, before);
    } else {
      for (const auto& [key, words] : rows) {
        EXPECT_EQ(words, before.at(key));
      }
      EXPECT_GE(rows.size(), 600u);
    }
  }
}

TEST(Ssd, DeltasOfRowsOnDiskRestartAndComeBack) {
  const TempDir folder("argosy_ssd");
  Partition table(ssd_config(folder, 50));
  push(table, range(0, 300), 40, 1);
  const auto before = rows_of(table);
  const auto save = [&](bool commit) {
    RowBatch cut;
    table.begin_snapshot(SaveMode::Delta);
    while (table.next_slice(64, cut)) {
    }
    commit ? table.commit_snapshot() : table.abort_snapshot();
    return cut.size();
  };
  EXPECT_EQ(save(false), 300u);
  EXPECT_EQ(rows_of(table), before);
  EXPECT_EQ(save(true), 300u);
  EXPECT_EQ(save(true), 0u);
}

TEST(Ssd, EndOfAPassMovesUnseenRowsOut) {
  const TempDir folder("argosy_ssd");
  Partition table(ssd_config(folder, 0));
  push(table, range(0, 100), 1);
  table.end_day();
  table.end_day();
  push(table, range(0, 10), 1);
  while (table.demote_slice(7)) {
  }
  EXPECT_EQ(table.stat().disk_rows, 90u);
  EXPECT_EQ(table.stat().rows, 100u);
  pull(table, range(50, 60));
  EXPECT_EQ(table.stat().disk_rows, 80u);
  table.clear();
  EXPECT_EQ(table.stat().rows, 0u);
}

TEST(Ssd, NewKeysAreNotLookedUpOnDisk) {
  const TempDir folder("argosy_ssd");
  Partition table(ssd_config(folder, 100));
  for (std::uint64_t key = 0; key < 20000; key += 200) {
    push(table, range(key, key + 200), 1);
  }
  EXPECT_EQ(table.stat().rows, 20000u);
  EXPECT_LT(table.stat().disk_reads, 400u);
  const std::uint64_t before = table.stat().disk_reads;
  pull(table, range(0, 1000));
  EXPECT_GE(table.stat().disk_reads - before, 900u);
}

TEST(Ssd, ShrinkForgetsKeysOfRemovedRows) {
  const TempDir folder("argosy_ssd");
  SparseConfig config = ssd_config(folder, 100);
  config.ctr.delete_threshold = 0.8f;
  config.ctr.show_click_decay_rate = 1;
  Partition table(config);
  Partition plain(in_memory(config));
  for (Partition* each : {&table, &plain}) {
    push(*each, range(0, 2000), 1); // score below the threshold
    push(*each, range(2000, 4000), 50, 40);
  }
  // Rows come and go while the round is under way.
  for (std::uint64_t key = 2000; table.shrink_slice(100); key += 50) {
    pull(table, range(key, key + 50), false);
  }
  plain.shrink();
  EXPECT_EQ(rows_of(table), rows_of(plain));
  EXPECT_EQ(table.stat().rows, 2000u);
  const std::uint64_t before = table.stat().disk_reads;
  pull(table, range(0, 2000), false);
  EXPECT_LT(table.stat().disk_reads - before, 100u);
  const Keys left = range(2000, 4000);
  EXPECT_EQ(pull(table, left), pull(plain, left));
}

TEST(Ssd, NeedsAFolder) {
  SparseConfig config;
  config.on_ssd = true;
  EXPECT_THROW(Partition{config}, InvalidArgument);
  config.ssd.folder = "/proc/no_such_folder";
  EXPECT_THROW(Partition{config}, SystemError);
}

} // namespace
} // namespace argosy::ps
