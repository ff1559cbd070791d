#include "argosy/ps/table/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/table/row_text.h"
#include "argosy/ps/table/spool.h"
#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::Keys;
using testing::push;
using testing::range;
using testing::RowMap;
using testing::soon;
using ::testing::ThrowsMessage;

SparseConfig save_config() {
  SparseConfig config;
  config.table_id = 4;
  config.shard_num = 7;
  config.embedx_dim = 3;
  config.embedx_threshold = 2;
  return config;
}

RowMap all_rows(SparseTable& table) {
  RowMap rows;
  for (int p = 0; p < table.num_partitions(); ++p) {
    rows.merge(testing::rows_of(table.partition(p)));
  }
  return rows;
}

void fill_table(SparseTable& table) {
  Keys keys;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const std::uint64_t spread = key * 0x123456789abcdu;
    if (table.shard_map().server_of(spread) == table.server()) {
      keys.push_back(spread);
    }
  }
  push(table, keys, 1.5f, 0.25f, 0.3f);
  std::erase_if(keys, [](std::uint64_t key) { return key % 3 == 0; });
  push(table, keys, 20, 1, -0.7f);
}

// Saves with some servers, loads with others.
RowMap reload(const SparseConfig& config, int save_servers, int load_servers) {
  const TempDir dir("argosy_save");
  RowMap saved;
  for (int server = 0; server < save_servers; ++server) {
    SparseTable table(config, save_servers, server);
    fill_table(table);
    saved.merge(all_rows(table));
    save_sparse(table, dir.path().string(), SaveMode::Checkpoint, soon());
  }
  RowMap loaded;
  for (int server = 0; server < load_servers; ++server) {
    SparseTable table(config, load_servers, server);
    load_sparse(table, dir.path().string(), soon());
    loaded.merge(all_rows(table));
  }
  EXPECT_EQ(saved, loaded);
  return loaded;
}

TEST(Save, BringsAllBitsBackForAnyNumberOfServers) {
  for (const auto accessor :
       {Accessor::CtrCommon, Accessor::CtrDouble, Accessor::Embedding}) {
    SparseConfig config = save_config();
    config.accessor = accessor;
    const RowMap one = reload(config, 1, 3);
    EXPECT_EQ(one.size(), 300u);
    config.num_partitions = 3;
    config.compress_in_save = true;
    EXPECT_EQ(reload(config, 3, 2), one);
  }
}

TEST(Save, WritesTheReferencesNamesAndLines) {
  const TempDir dir("argosy_save");
  SparseTable table(save_config(), 2, 1);
  push(table, {6}, 2, 1, 0); // slot 5
  save_sparse(table, dir.path().string(), SaveMode::Checkpoint, soon());
  const std::string path = shard_path(dir.path().string(), 4, 1, 6, false);
  EXPECT_EQ(path, dir.path().string() + "/004/part-001-00006");
  EXPECT_EQ(read_file(path), "6 5 0 1.1 2 1 0 0\n");
  EXPECT_EQ(read_file(shard_path(dir.path().string(), 4, 1, 5, false)), "");
}

TEST(Save, ReplacesFilesOfOtherServers) {
  const TempDir dir("argosy_save");
  SparseConfig config = save_config();
  {
    config.compress_in_save = true;
    SparseTable table(config, 2, 1);
    save_sparse(table, dir.path().string(), SaveMode::Checkpoint, soon());
  }
  config.compress_in_save = false;
  SparseTable table(config);
  fill_table(table);
  save_sparse(table, dir.path().string(), SaveMode::Checkpoint, soon());
  const auto files = std::filesystem::directory_iterator(dir.path() / "004");
  EXPECT_EQ(std::distance(begin(files), end(files)), 8); // and "shards"
  SparseTable other(config);
  load_sparse(other, dir.path().string(), soon());
  EXPECT_EQ(all_rows(other), all_rows(table));
}

TEST(Save, AFailureLeavesTheStateForTheNextTry) {
  SparseTable table(save_config());
  fill_table(table);
  const RowMap before = all_rows(table);
  const TempDir dir("argosy_save");
  std::filesystem::create_directories(dir.path() / "004/part-000-00003");
  EXPECT_THROW(
      save_sparse(table, dir.path().string(), SaveMode::Delta, soon()), Error);
  EXPECT_EQ(all_rows(table), before);
  std::filesystem::remove(dir.path() / "004/part-000-00003");
  save_sparse(table, dir.path().string(), SaveMode::Delta, soon());
  EXPECT_NE(all_rows(table), before);
}

TEST(Save, ConvertersSeeDeltasAndBases) {
  const TempDir dir("argosy_save");
  SparseConfig config = save_config();
  config.converter = "sed 's/^/x/'";
  config.deconverter = "sed 's/^x//'";
  SparseTable table(config);
  fill_table(table);
  const std::string path = dir.path().string();
  save_sparse(table, path, SaveMode::Base, soon());
  EXPECT_EQ(read_file(shard_path(path, 4, 0, 1, false))->front(), 'x');
  SparseTable other(config);
  EXPECT_THROW(load_sparse(other, path, soon()), CheckpointError);
  load_sparse(other, path, soon(), SaveMode::Base);
  EXPECT_GT(other.stat().rows, 100u);
  save_sparse(table, path, SaveMode::Checkpoint, soon());
  EXPECT_NE(read_file(shard_path(path, 4, 0, 1, false))->front(), 'x');
  config.converter = "exit 3"; // lint: allow exit, a shell's
  SparseTable failing(config);
  EXPECT_THAT(
      [&] { save_sparse(failing, path, SaveMode::Base, soon()); },
      ThrowsMessage<SystemError>(HasSubstr("exit code 3")));
  config.converter = "sleep 60";
  SparseTable slow(config);
  EXPECT_THROW(
      save_sparse(
          slow,
          path,
          SaveMode::Base,
          Deadline::after(std::chrono::milliseconds(50))),
      TimeoutError);
}

TEST(Load, RefusesWhatIsNotTheTable) {
  const TempDir dir("argosy_save");
  const std::string path = dir.path().string();
  SparseTable table(save_config());
  EXPECT_THAT(
      [&] { load_sparse(table, path, soon()); },
      ThrowsMessage<CheckpointError>(
          HasSubstr("files of 0 shards, expected 7")));
  save_sparse(table, path, SaveMode::Checkpoint, soon());
  const std::string last = shard_path(path, 4, 0, 6, false);
  std::filesystem::remove(last);
  EXPECT_THAT(
      [&] { load_sparse(table, path, soon()); },
      ThrowsMessage<CheckpointError>(
          HasSubstr("files of 6 shards, expected 7")));
  std::ofstream{last};
  const std::string first = shard_path(path, 4, 0, 0, false);
  for (const char* text :
       {"7 1 2\n",
        "x 1 2\n",
        "7 1 0 0 1 1 0 0 1 2 3 4 5\n",
        "8 5 0 0 1 1 0 0\n",
        "7 5 0 0 1 1 0 0z\n"}) {
    std::ofstream(first) << text;
    EXPECT_THROW(load_sparse(table, path, soon()), CheckpointError) << text;
  }
  std::ofstream(first) << "7 5 0 0 1 1 0 0"; // the last end is not needed
  load_sparse(table, path, soon());
  EXPECT_EQ(table.stat().rows, 1u);
  std::ofstream(shard_path(path, 4, 1, 0, false));
  EXPECT_THAT(
      [&] { load_sparse(table, path, soon()); },
      ThrowsMessage<CheckpointError>(HasSubstr("are of shard 0")));
}

// Saves by 7 shards on two servers, loads by other numbers on three.
TEST(Load, TakesAnyNumberOfShards) {
  const TempDir dir("argosy_save");
  const std::string path = dir.path().string();
  RowMap saved;
  for (int server = 0; server < 2; ++server) {
    SparseTable table(save_config(), 2, server);
    fill_table(table);
    saved.merge(all_rows(table));
    save_sparse(table, path, SaveMode::Checkpoint, soon());
  }
  const auto loaded = [&](int shards) {
    SparseConfig config = save_config();
    config.shard_num = shards;
    RowMap rows;
    for (int server = 0; server < 3; ++server) {
      SparseTable table(config, 3, server);
      load_sparse(table, path, soon());
      for (const auto& [key, words] : all_rows(table)) {
        EXPECT_EQ(table.shard_map().server_of(key), server);
        EXPECT_TRUE(rows.emplace(key, words).second) << key;
      }
    }
    return rows;
  };
  for (const int shards : {3, 7, 1000}) {
    EXPECT_EQ(loaded(shards), saved) << shards;
  }
  std::filesystem::remove(dir.path() / "004/shards"); // as older saves
  EXPECT_EQ(loaded(5), saved);
  // A save by fewer shards replaces all files.
  SparseConfig fewer = save_config();
  fewer.shard_num = 3;
  SparseTable table(fewer);
  load_sparse(table, path, soon());
  save_sparse(table, path, SaveMode::Checkpoint, soon());
  const std::filesystem::directory_iterator files(dir.path() / "004");
  EXPECT_EQ(std::distance(begin(files), end(files)), 4);
  EXPECT_EQ(loaded(7), saved);
}

TEST(ShardMap, HasAPrimeOfShardsForEachNumberOfServers) {
  EXPECT_EQ(default_shard_num(1), 17);
  EXPECT_EQ(default_shard_num(2), 31);
  for (int servers = 2; servers <= 40; ++servers) {
    const ShardMap map{default_shard_num(servers), servers};
    EXPECT_GE(map.shard_num, 16 * servers - 1);
    EXPECT_LT(map.shard_num, 32 * servers);
    const int last = servers - 1;
    EXPECT_EQ(
        map.end_shard(last) - map.first_shard(last),
        map.shards_per_server() - 1);
  }
}

TEST(Load, NoticesDamagedCompression) {
  const TempDir dir("argosy_save");
  SparseConfig config = save_config();
  config.compress_in_save = true;
  SparseTable table(config);
  fill_table(table);
  const std::string path = dir.path().string();
  save_sparse(table, path, SaveMode::Checkpoint, soon());
  const std::string file = shard_path(path, 4, 0, 2, true);
  const std::string whole = *read_file(file);
  write_file(file, whole.substr(0, whole.size() / 2));
  EXPECT_THROW(load_sparse(table, path, soon()), CheckpointError);
  write_file(file, "not gzip at all");
  EXPECT_THROW(load_sparse(table, path, soon()), CheckpointError);
}

TEST(RowText, KeepsEveryFloat) {
  SparseConfig config = save_config();
  config.accessor = Accessor::Embedding;
  const RowLayout layout = row_layout(config);
  const Floats words = {
      -0.0f,
      std::numeric_limits<float>::denorm_min(),
      std::numeric_limits<float>::max(),
      0.1f};
  std::string text;
  append_row_text(layout, ~0ull, words, text);
  EXPECT_TRUE(text.starts_with("18446744073709551615 -0 1e-45 "));
  RowBatch batch;
  parse_row_text(layout, text.substr(0, text.size() - 1), batch);
  EXPECT_EQ(batch.keys, Keys{~0ull});
  EXPECT_EQ(std::memcmp(batch.words.data(), words.data(), 16), 0);
}

TEST(Spool, KeepsTextsApartInMemoryAndOnDisk) {
  Spool spool(3, 100);
  std::string expected[3];
  for (int i = 0; i < 500; ++i) {
    const auto text = static_cast<std::size_t>(i * 7 % 3);
    const std::string part = str(i, ",");
    spool.tail(text) += part;
    spool.grown(part.size());
    expected[text] += part;
  }
  for (std::size_t text = 0; text < 3; ++text) {
    std::string got;
    spool.read(text, [&](std::string_view part) { got += part; });
    EXPECT_EQ(got, expected[text]);
  }
}

TEST(SaveDense, BringsValuesAndStateBackForAnyNumberOfServers) {
  const TempDir dir("argosy_save");
  const std::string path = dir.path().string();
  const DenseConfig config{.table_id = 2, .rule = DenseRule::Adam};
  constexpr std::size_t kTotal = 11;
  Floats gradient(kTotal);
  for (std::size_t i = 0; i < kTotal; ++i) {
    gradient[i] = 0.1f * static_cast<float>(i) - 0.3f;
  }
  DenseTable whole(config, kTotal);
  whole.push(gradient);
  for (int server = 0; server < 3; ++server) {
    const DenseRange part = dense_range(kTotal, 3, server);
    DenseTable table(config, part.size());
    table.push(std::span(gradient).subspan(part.begin, part.size()));
    save_dense(table, path, server, soon());
  }
  DenseTable loaded(config, kTotal);
  load_dense(loaded, path, 0, kTotal, soon());
  whole.push(gradient);
  loaded.push(gradient);
  EXPECT_EQ(loaded.steps(), 2);
  EXPECT_TRUE(std::ranges::equal(loaded.values(), whole.values()));
  DenseTable part(config, 4);
  load_dense(part, path, 5, kTotal, soon());
  EXPECT_THAT(
      [&] { load_dense(part, path, 0, 4, soon()); },
      ThrowsMessage<CheckpointError>(HasSubstr("expected 4")));
  DenseTable sgd({.table_id = 2}, kTotal);
  EXPECT_THROW(load_dense(sgd, path, 0, kTotal, soon()), CheckpointError);
}

} // namespace
} // namespace argosy::ps
