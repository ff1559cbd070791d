#include "argosy/ps/table/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "argosy/common/error.h"
#include "argosy/ps/table/sparse_table.h"
#include "tests/ps/plain_table.h"
#include "tests/ps/support.h"

namespace argosy::ps {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Floats;
using ::testing::HasSubstr;
using testing::Keys;
using testing::pull;
using testing::push;
using testing::range;
using ::testing::ThrowsMessage;
using testing::to_size;

struct Combination {
  Accessor accessor;
  Rule embed;
  Rule embedx;
  int dim;
  bool show_scale = true;
};

SparseConfig config_of(const Combination& combination) {
  SparseConfig config;
  config.accessor = combination.accessor;
  config.embed_rule.rule = combination.embed;
  config.embedx_rule.rule = combination.embedx;
  config.embedx_dim = combination.dim;
  config.ctr.show_scale = combination.show_scale;
  config.embedx_threshold = 2;
  return config;
}

class Accessors : public ::testing::TestWithParam<Combination> {};

// Thousands of pushes of random records, days and shrinks, beside the table
// that one would write down first.
TEST_P(Accessors, LiveLikeThePlainTable) {
  const SparseConfig config = config_of(GetParam());
  Partition table(config);
  testing::PlainTable plain(config);
  const RowLayout layout = row_layout(config);
  // The weights that embedx begins with.
  std::map<std::uint64_t, Floats> initial;
  Partition fresh(config);
  for (const std::uint64_t key : range(0, 200)) {
    push(fresh, {key}, 100);
    const Floats values = pull(fresh, {key});
    initial[key].assign(values.end() - layout.embedx_dim, values.end());
  }
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int step = 0; step < 150; ++step) {
    Keys keys(random() % 90);
    std::generate(keys.begin(), keys.end(), [&] { return random() % 200; });
    Floats all(keys.size() * to_size(layout.push_dim));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = normal(random);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      float* const record = &all[i * to_size(layout.push_dim)];
      record[0] = static_cast<float>(keys[i] % 7);
      record[1] = static_cast<float>(random() % 4); // sometimes no show
      record[2] = record[1] > 1 ? 1 : 0;
    }
    table.push(keys, all);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto record = std::span(all)
                              .subspan(i * to_size(layout.push_dim))
                              .first(to_size(layout.push_dim));
      plain.push(keys[i], record, initial[keys[i]]);
    }
    if (step % 10 == 9) {
      table.end_day();
      plain.end_day();
    }
    if (step % 25 == 24) {
      table.shrink();
      plain.shrink();
    }
    ASSERT_EQ(table.stat().rows, plain.rows().size());
  }
  for (std::uint64_t key = 0; key < 210; ++key) {
    const Floats real = pull(table, {key});
    const std::vector<double> expected = plain.pull(key);
    ASSERT_EQ(real.size(), expected.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      ASSERT_NEAR(real[i], expected[i], 1e-4 * (1 + std::abs(expected[i])))
          << key << ' ' << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Accessors,
    ::testing::Values(
        Combination{Accessor::CtrCommon, Rule::AdaGrad, Rule::AdaGrad, 8},
        Combination{Accessor::CtrCommon, Rule::Naive, Rule::Adam, 5},
        Combination{
            Accessor::CtrCommon, Rule::StdAdaGrad, Rule::StdAdaGrad, 16, false},
        Combination{Accessor::CtrDouble, Rule::AdaGrad, Rule::SharedAdam, 9},
        Combination{Accessor::CtrDouble, Rule::Adam, Rule::AdaGradV2, 3},
        Combination{Accessor::Sparse, Rule::AdaGradV2, Rule::Naive, 7},
        Combination{Accessor::Sparse, Rule::SharedAdam, Rule::AdaGrad, 1}));

TEST(Partition, TakesWeights) {
  Partition table(embedding_config(2, {.rule = Rule::AdaGrad}));
  testing::push(table, {1}, 0);
  Floats before(2);
  table.pull(Keys{1}, before);
  table.set_weights(Keys{1, 9}, Floats{1, 2, 3, 4});
  EXPECT_EQ(table.stat().rows, 2u);
  Floats after(4);
  table.pull(Keys{9, 1}, after);
  EXPECT_EQ(after, (Floats{3, 4, 1, 2}));
  EXPECT_THROW(table.set_weights(Keys{1}, Floats{1}), InvalidArgument);
  EXPECT_THROW(
      Partition(SparseConfig{}).set_weights(Keys{1}, Floats(8)),
      InvalidArgument);
}

TEST(Partition, UnknownKeysAreZerosAndStayUnknown) {
  Partition table(SparseConfig{});
  EXPECT_THAT(pull(table, {1, 2}), Each(0.0f));
  EXPECT_EQ(table.stat().rows, 0u);
}

TEST(Partition, PullsCreateIfToldTo) {
  SparseConfig config = embedding_config(4, {});
  config.unknown_key = UnknownKey::Create;
  Partition table(config);
  const Floats shown = pull(table, {1}, false);
  EXPECT_EQ(table.stat().rows, 0u);
  EXPECT_EQ(pull(table, {1, 1}).size(), 8u);
  EXPECT_EQ(table.stat().rows, 1u);
  EXPECT_EQ(pull(table, {1}), shown); // what was shown is what was created
}

TEST(Partition, ShowsInitialValuesBeforeARowExists) {
  Partition table(
      embedding_config(16, {.rule = Rule::Sum, .initial_range = 1}));
  const Floats before = pull(table, {77});
  EXPECT_EQ(table.stat().rows, 0u);
  EXPECT_GT(*std::max_element(before.begin(), before.end()), 0.1f);
  push(table, {77}, 1, 0, 0.5f);
  const Floats after = pull(table, {77});
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i], before[i] + 0.5f);
  }
}

TEST(Partition, EmbedxComesByScore) {
  SparseConfig config;
  config.embedx_dim = 2;
  config.embedx_threshold = 2;
  Partition table(config);
  push(table, {1}, 10); // 10 shows, no click: score 1
  EXPECT_EQ(pull(table, {1})[3], 0);
  EXPECT_EQ(table.stat().full_rows, 0u);
  push(table, {1}, 2, 1); // score 1.1 + 1
  EXPECT_EQ(table.stat().full_rows, 1u);
  const Floats created = pull(table, {1});
  EXPECT_NE(created[3], 0);
  EXPECT_LT(std::abs(created[3]), 1e-4); // the gradient before it is discarded
  push(table, {1}, 1);
  EXPECT_GT(std::abs(pull(table, {1})[3]), 1e-3);
}

TEST(Partition, ARecordWithoutShowsDividesByNothing) {
  Partition table(SparseConfig{});
  push(table, {1}, 0);
  const Floats values = pull(table, {1});
  EXPECT_TRUE(std::all_of(
      values.begin(), values.end(), [](float v) { return std::isfinite(v); }));
  EXPECT_FLOAT_EQ(values[2], -0.05f);
}

TEST(Partition, RepeatedKeysOfABatchAreAppliedInOrder) {
  const SparseConfig config = default_sparse_config(6);
  Partition together(config);
  Partition apart(config);
  Keys keys;
  for (int i = 0; i < 300; ++i) { // rows come, grow and move within blocks
    keys.push_back(static_cast<std::uint64_t>(i * i % 61));
  }
  push(together, keys, 1);
  for (const std::uint64_t key : keys) {
    push(apart, {key}, 1);
  }
  EXPECT_EQ(testing::rows_of(together), testing::rows_of(apart));
}

TEST(Partition, ChangedRatesHoldFromTheNextPush) {
  Partition table(
      embedding_config(1, {.rule = Rule::Naive, .initial_range = 0}));
  table.set_learning_rate(0.5f);
  push(table, {1}, 1);
  table.set_learning_rate(0.25f);
  push(table, {1}, 1);
  EXPECT_THAT(pull(table, {1}), ElementsAre(-0.75f));
  EXPECT_THROW(table.set_learning_rate(NAN), InvalidArgument);
}

TEST(Partition, InitialValuesDependOnSeedTableAndKeyAlone) {
  SparseConfig config = embedding_config(8, {.rule = Rule::Sum});
  const auto values = [&](int table_id, std::uint64_t seed, std::uint64_t key) {
    config.table_id = table_id;
    config.seed = seed;
    Partition table(config);
    return pull(table, {key});
  };
  const Floats one = values(1, 2, 3);
  EXPECT_EQ(one, values(1, 2, 3));
  EXPECT_NE(one, values(2, 2, 3));
  EXPECT_NE(one, values(1, 3, 3));
  EXPECT_NE(one, values(1, 2, 4));
}

TEST(Partition, InitialValuesAreUniform) {
  Partition table(embedding_config(64, {.initial_range = 2}));
  const Floats all = pull(table, range(0, 2000));
  double sum = 0;
  double squares = 0;
  for (const float value : all) {
    ASSERT_LE(std::abs(value), 2);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(all.size());
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 4.0 / 3, 0.02);
}

// Batches go through in groups. Unknown keys come in the middle of them, and
// keys repeat.
void expect_batches_like_single_keys(const SparseConfig& config, int rounds) {
  Partition together(config);
  Partition one_by_one(config);
  const std::size_t push_dim = to_size(together.layout().push_dim);
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int round = 0; round < rounds; ++round) {
    Keys keys(random() % 150);
    for (std::uint64_t& key : keys) {
      key = random() % (100 + 20 * static_cast<unsigned>(round)) << 32;
    }
    Floats records(keys.size() * push_dim);
    std::generate(
        records.begin(), records.end(), [&] { return normal(random); });
    together.push(keys, records);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      one_by_one.push(
          std::span(keys).subspan(i, 1),
          std::span(records).subspan(i * push_dim, push_dim));
    }
    Floats pulled;
    for (const std::uint64_t key : keys) {
      const Floats row = pull(one_by_one, {key});
      pulled.insert(pulled.end(), row.begin(), row.end());
    }
    ASSERT_EQ(pull(together, keys), pulled) << round;
  }
  EXPECT_EQ(testing::rows_of(together), testing::rows_of(one_by_one));
}

TEST(Partition, GivesForABatchWhatItsKeysGiveOneByOne) {
  for (const int dim : {1, 8, 11, 16}) {
    for (const Rule rule : {Rule::AdaGrad, Rule::Adam, Rule::Naive}) {
      expect_batches_like_single_keys(
          embedding_config(dim, {.rule = rule}), 40);
    }
  }
}

TEST(Partition, GivesForABatchWhatItsKeysGiveBeforeTheyAreAdmitted) {
  SparseConfig config = embedding_config(16, {});
  config.entry = count_filter_entry(3);
  expect_batches_like_single_keys(config, 60);
}

TEST(Partition, AHotKeyGetsAllItsUpdates) {
  const SparseConfig config = embedding_config(8, {.rule = Rule::Sum});
  Partition table(config);
  const Floats before = pull(table, {7});
  Keys keys = range(0, 5000);
  for (std::size_t i = 0; i < keys.size(); i += 2) {
    keys[i] = 7;
  }
  push(table, keys, 0, 0, 1); // sums of ones are exact up to 2^24
  const Floats after = pull(table, {7});
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], before[i] + 2501, 1e-3); // 7 is odd: once more
  }
}

TEST(Partition, RefusesWrongSizesAndWhatIsNoNumber) {
  SparseConfig config;
  config.name = "ads";
  Partition table(config);
  Floats values(10);
  const Keys keys = {1, 2};
  EXPECT_THAT(
      [&] { table.pull(keys, values); },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("table 'ads': 2 keys with 10 floats, expected 22")));
  EXPECT_THAT(
      [&] { table.push(keys, values); },
      ThrowsMessage<InvalidArgument>(HasSubstr("expected 24: 12 for each")));
  Floats bad = testing::records(table.layout(), 2, 1, 0, 1);
  bad[12 + 5] = NAN;
  EXPECT_THAT(
      [&] { table.push(keys, bad); },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("value 5 of the record for key 2 is nan")));
  EXPECT_EQ(table.stat().rows, 0u); // nor was key 1 applied
  config.refuse_non_finite = false;
  Partition lenient(config);
  lenient.push(keys, bad);
  EXPECT_EQ(lenient.stat().rows, 2u);
}

// ---- Entries ----------------------------------------------------------------

TEST(Entries, ACountFilterAdmitsOnceSeenOftenEnough) {
  SparseConfig config;
  config.entry = count_filter_entry(5);
  Partition table(config);
  push(table, {1}, 2);
  push(table, {1}, 2);
  EXPECT_EQ(table.stat().rows, 0u);
  EXPECT_EQ(table.stat().pending, 1u);
  EXPECT_THAT(pull(table, {1}), Each(0.0f));
  push(table, {1}, 1);
  EXPECT_EQ(table.stat().rows, 1u);
  EXPECT_EQ(table.stat().pending, 0u);
  EXPECT_EQ(pull(table, {1})[0], 1); // shows count from its admission
}

TEST(Entries, PushesCountWhereThereAreNoShows) {
  SparseConfig config = embedding_config(1, {.rule = Rule::Sum});
  config.entry = count_filter_entry(3);
  Partition table(config);
  push(table, {9, 9}, 1);
  EXPECT_EQ(table.stat().rows, 0u);
  EXPECT_THAT(pull(table, {9}), ElementsAre(0.0f));
  push(table, {9}, 1);
  EXPECT_EQ(table.stat().rows, 1u);
}

TEST(Entries, ShrinkForgetsIdsThatAreSeldomSeen) {
  SparseConfig config;
  config.entry = count_filter_entry(5);
  Partition table(config);
  push(table, {1}, 1);
  push(table, {2}, 4);
  for (int day = 0; day < 12; ++day) { // 0.98^12 < 0.8
    table.shrink();
  }
  EXPECT_EQ(table.stat().pending, 1u);
}

TEST(Entries, AProbabilityAdmitsThatPartAtEachPush) {
  SparseConfig config = embedding_config(4, {});
  config.entry = probability_entry(0.2);
  Partition table(config);
  const Keys keys = range(0, 10'000);
  push(table, keys, 1, 0, 1);
  EXPECT_NEAR(static_cast<double>(table.stat().rows), 2000, 200);
  push(table, keys, 1, 0, 2); // another push is another chance
  EXPECT_NEAR(static_cast<double>(table.stat().rows), 3600, 200);
}

TEST(Entries, RowsAreCreatedByScoreIfToldTo) {
  SparseConfig config;
  config.create_by_score = true;
  Partition table(config);
  push(table, range(0, 1000), 10); // score 1
  push(table, range(10'000, 11'000), 0);
  EXPECT_EQ(table.stat().rows, 1000u);
  push(table, range(20'000, 30'000), 4); // score 0.4
  EXPECT_NEAR(static_cast<double>(table.stat().rows), 5000, 250);
}

TEST(Entries, AreWrittenAndReadAsText) {
  for (const Entry& entry :
       {Entry{},
        count_filter_entry(10),
        probability_entry(0.1),
        show_click_entry("s", "c")}) {
    EXPECT_EQ(parse_entry(to_string(entry)), entry);
  }
  EXPECT_EQ(to_string(count_filter_entry(10)), "count_filter_entry:10");
  EXPECT_EQ(to_string(probability_entry(0.1)), "probability_entry:0.1");
  EXPECT_EQ(to_string(show_click_entry("s", "c")), "show_click_entry:s:c");
  EXPECT_THROW(count_filter_entry(-1), InvalidArgument);
  EXPECT_THROW(probability_entry(1), InvalidArgument);
  EXPECT_THROW(show_click_entry("", "c"), InvalidArgument);
  for (const char* text :
       {"", "count", "count_filter_entry:x", "probability_entry:2", "none:1"}) {
    EXPECT_THROW(parse_entry(text), InvalidArgument) << text;
  }
}

// ---- Tables -----------------------------------------------------------------

TEST(SparseTable, AnyNumberOfServersAndPartitionsGivesTheSameRows) {
  SparseConfig config = default_sparse_config(5);
  config.shard_num = 13;
  const Keys keys = range(0, 500);
  const auto run = [&](int servers, int partitions) {
    config.num_partitions = partitions;
    testing::RowMap rows;
    for (int server = 0; server < servers; ++server) {
      SparseTable table(config, servers, server);
      Keys mine;
      std::copy_if(
          keys.rbegin(), keys.rend(), std::back_inserter(mine), [&](auto key) {
            return table.shard_map().server_of(key) == server;
          });
      push(table, mine, 2);
      push(table, mine, 1, 1);
      for (int p = 0; p < partitions; ++p) {
        rows.merge(testing::rows_of(table.partition(p)));
      }
    }
    return rows;
  };
  const auto one = run(1, 1);
  EXPECT_EQ(one.size(), 500u);
  EXPECT_EQ(one, run(1, 4));
  EXPECT_EQ(one, run(3, 2));
  EXPECT_EQ(one, run(5, 1));
}

TEST(SparseTable, PullsInTheOrderOfKeys) {
  SparseConfig config = embedding_config(2, {.rule = Rule::Sum});
  config.num_partitions = 3;
  config.embedx_rule.initial_range = 0;
  SparseTable table(config);
  for (const std::uint64_t key : {4, 2, 9}) {
    push(table, {key}, 1, 0, static_cast<float>(key));
  }
  EXPECT_THAT(pull(table, {9, 4, 2, 9}), ElementsAre(9, 9, 4, 4, 2, 2, 9, 9));
}

TEST(SparseTable, RefusesKeysOfOtherServers) {
  SparseConfig config;
  config.shard_num = 10;
  SparseTable table(config, 2, 1);
  EXPECT_THAT(
      [&] {
        table.group(Keys{5, 3});
      },
      ThrowsMessage<InvalidArgument>(
          HasSubstr("key 3 is in shard 3 of server 0")));
}

TEST(ShardMap, SpreadsShardsAsTheReferenceDoes) {
  const ShardMap map{1000, 3};
  EXPECT_EQ(map.shards_per_server(), 334);
  EXPECT_EQ(map.server_of(1333), 0);
  EXPECT_EQ(map.server_of(1334), 1);
  EXPECT_EQ(map.server_of(~0ull), map.shard_of(~0ull) / 334);
  EXPECT_EQ(map.end_shard(2), 1000);
  const ShardMap few{5, 4};
  EXPECT_EQ(few.first_shard(3), few.end_shard(3)); // a server without shards
  EXPECT_EQ(dense_range(10, 3, 0), (DenseRange{0, 4}));
  EXPECT_EQ(dense_range(10, 3, 2), (DenseRange{8, 10}));
  EXPECT_EQ(dense_range(3, 4, 3).size(), 0u);
}

TEST(Memory, ARowCostsKeyAndValuesAndAtMostSixteenBytes) {
  Partition table(embedding_config(8, {}));
  constexpr std::size_t kRows = 500'000;
  Keys keys(1000);
  const Floats gradients(8000, 1);
  for (std::size_t i = 0; i < kRows; i += keys.size()) {
    for (std::size_t j = 0; j < keys.size(); ++j) {
      keys[j] = (i + j) * 0x9e3779b97f4a7c15u;
    }
    table.push(keys, gradients);
  }
  const PartitionStat stat = table.stat();
  ASSERT_EQ(stat.rows, kRows);
  EXPECT_LE(stat.memory_bytes, kRows * (8 + 4 * 8 + 4 + 16));
}

} // namespace
} // namespace argosy::ps
