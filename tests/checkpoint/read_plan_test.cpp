#include "argosy/checkpoint/read_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "argosy/checkpoint/boxes.h"
#include "tests/checkpoint/random_boxes.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitized.h"

namespace argosy::checkpoint {
namespace {

using testing::refusal;
using Wants = std::vector<std::vector<Want>>;

// A tensor in these pieces, one behind the other in one file.
TensorRecord record_of(
    const std::string& name,
    DType dtype,
    const Shape& shape,
    const std::vector<Box>& boxes) {
  TensorRecord record{{name, dtype, shape}, {}, {}};
  std::uint64_t at = 4096;
  for (const Box& box : boxes) {
    record.pieces.push_back({box, 0, at, {}, {}});
    at += static_cast<std::uint64_t>(box.numel()) * element_bytes(dtype);
  }
  return record;
}

std::int64_t chunk_elements(const TensorRecord& tensor) {
  return static_cast<std::int64_t>(
      kChunkBytes / element_bytes(tensor.info.dtype));
}

std::int64_t num_chunks(const TensorRecord& tensor, const PieceRecord& piece) {
  const std::int64_t each = chunk_elements(tensor);
  return (piece.box.numel() + each - 1) / each;
}

std::vector<PlannedRead> all_reads(const ReadPlan& plan) {
  std::vector<PlannedRead> reads;
  for (const auto& wave : plan.waves) {
    reads.insert(reads.end(), wave.begin(), wave.end());
  }
  return reads;
}

std::uint64_t bytes_in(const Manifest& manifest, const PlannedRead& read) {
  return static_cast<std::uint64_t>(read.end - read.begin) *
      element_bytes(manifest.tensors[read.tensor].info.dtype);
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// The ranges are [0, count), each element once.
bool is_all_once(Ranges ranges, std::int64_t count) {
  std::ranges::sort(ranges);
  std::int64_t next = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != next) {
      return false;
    }
    next = end;
  }
  return next == count;
}

void expect_takers(
    const Manifest& manifest,
    const Wants& wants,
    const std::vector<int>& hosts,
    const PlannedRead& read) {
  const Box& piece = manifest.tensors[read.tensor].pieces[read.piece].box;
  ASSERT_FALSE(read.takers.empty());
  bool readers_turn = true;
  for (const PlannedRead::Taker& taker : read.takers) {
    const auto rank = static_cast<std::size_t>(taker.rank);
    ASSERT_EQ(hosts[rank], hosts[static_cast<std::size_t>(read.reader)]);
    ASSERT_TRUE(readers_turn || taker.rank != read.reader);
    readers_turn = readers_turn && taker.rank == read.reader;
    const Want& want = wants[rank].at(taker.want);
    ASSERT_EQ(want.tensor, read.tensor);
    ASSERT_GT(count_common(piece, read.begin, read.end, want.box), 0);
  }
}

// Each element of each want comes once.
void expect_deliveries(
    const Manifest& manifest,
    const Wants& wants,
    const std::vector<int>& hosts,
    const ReadPlan& plan) {
  std::map<std::pair<int, std::uint32_t>, Ranges> delivered;
  for (const PlannedRead& read : all_reads(plan)) {
    expect_takers(manifest, wants, hosts, read);
    const Box& piece = manifest.tensors[read.tensor].pieces[read.piece].box;
    for (const PlannedRead::Taker& taker : read.takers) {
      const auto rank = static_cast<std::size_t>(taker.rank);
      Ranges& ranges = delivered[{taker.rank, taker.want}];
      for_each_run(
          piece,
          read.begin,
          read.end,
          wants[rank].at(taker.want).box,
          [&](const checkpoint::Run& run) {
            ranges.emplace_back(run.to, run.to + run.count);
          });
    }
  }
  for (std::size_t rank = 0; rank < wants.size(); ++rank) {
    for (std::uint32_t w = 0; w < wants[rank].size(); ++w) {
      const Ranges& ranges = delivered[{static_cast<int>(rank), w}];
      ASSERT_TRUE(is_all_once(ranges, wants[rank][w].box.numel()));
    }
  }
}

// Each host reads exactly the chunks that its ranks need, once.
void expect_needed_chunks(
    const Manifest& manifest,
    const Wants& wants,
    const std::vector<int>& hosts,
    const ReadPlan& plan) {
  using Chunk = std::tuple<int, std::uint32_t, std::uint32_t, std::int64_t>;
  std::multiset<Chunk> read_chunks;
  for (const PlannedRead& read : all_reads(plan)) {
    const TensorRecord& tensor = manifest.tensors[read.tensor];
    const std::int64_t each = chunk_elements(tensor);
    ASSERT_EQ(read.begin % each, 0);
    ASSERT_TRUE(
        read.end % each == 0 ||
        read.end == tensor.pieces[read.piece].box.numel());
    for (std::int64_t at = read.begin; at < read.end; at += each) {
      const int host = hosts[static_cast<std::size_t>(read.reader)];
      read_chunks.insert({host, read.tensor, read.piece, at / each});
    }
  }
  std::set<Chunk> needed;
  for (std::size_t rank = 0; rank < wants.size(); ++rank) {
    for (const Want& want : wants[rank]) {
      const TensorRecord& tensor = manifest.tensors[want.tensor];
      const std::int64_t each = chunk_elements(tensor);
      for (std::uint32_t p = 0; p < tensor.pieces.size(); ++p) {
        for (std::int64_t c = 0; c < num_chunks(tensor, tensor.pieces[p]);
             ++c) {
          if (count_common(
                  tensor.pieces[p].box, c * each, (c + 1) * each, want.box) >
              0) {
            needed.insert({hosts[rank], want.tensor, p, c});
          }
        }
      }
    }
  }
  ASSERT_TRUE(std::ranges::equal(read_chunks, needed));
}

std::map<int, double> loads_of(const Manifest& manifest, const ReadPlan& plan) {
  std::map<int, double> loads;
  for (const PlannedRead& read : all_reads(plan)) {
    loads[read.reader] += static_cast<double>(bytes_in(manifest, read));
  }
  return loads;
}

// Chunks cannot be cut, and sets of ranks share them one set after the other.
void expect_balance(
    const Manifest& manifest,
    const std::vector<int>& hosts,
    const ReadPlan& plan,
    double slack) {
  std::map<int, double> loads = loads_of(manifest, plan);
  std::map<int, double> averages;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto same =
        static_cast<double>(std::ranges::count(hosts, hosts[rank]));
    averages[hosts[rank]] += loads[static_cast<int>(rank)] / same;
  }
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const double average = averages[hosts[rank]];
    ASSERT_LE(loads[static_cast<int>(rank)], average * 1.07 + slack);
  }
}

bool is_for_others(const PlannedRead& read) {
  return std::ranges::any_of(read.takers, [&](const PlannedRead::Taker& taker) {
    return taker.rank != read.reader;
  });
}

// All ranks wait for each other at the end of a wave: only what is read for
// others may fill one.
void expect_waves(
    const Manifest& manifest, const ReadPlan& plan, std::uint64_t most) {
  bool has_exchange = false;
  for (const auto& wave : plan.waves) {
    ASSERT_FALSE(wave.empty());
    std::map<int, std::uint64_t> bytes;
    for (const PlannedRead& read : wave) {
      if (is_for_others(read)) {
        bytes[read.reader] += bytes_in(manifest, read);
        has_exchange = true;
      }
    }
    for (const auto& [reader, count] : bytes) {
      ASSERT_LE(count, most);
    }
  }
  if (!has_exchange) {
    ASSERT_LE(plan.waves.size(), 1u);
  }
}

TEST(ReadPlan, EachElementOnceFromEachChunkOnce) {
  RandomBoxes random(21);
  for (int i = 0; i < 700; ++i) {
    Manifest manifest;
    const std::int64_t count = random.number(1, 5);
    for (std::int64_t t = 0; t < count; ++t) {
      const Shape shape = random.shape(4, t % 3 == 0 ? 0 : 1, 6);
      manifest.tensors.push_back(record_of(
          str("t", t),
          DType::kF32,
          shape,
          random.partition(shape, static_cast<int>(random.number(0, 12)))));
    }
    Wants wants(static_cast<std::size_t>(random.number(1, 6)));
    std::vector<int> hosts;
    for (auto& list : wants) {
      hosts.push_back(static_cast<int>(random.number(0, 2)) * 7);
      for (std::int64_t w = random.number(0, 5); w > 0; --w) {
        const auto t = static_cast<std::uint32_t>(random.number(0, count - 1));
        const Shape& shape = manifest.tensors[t].info.shape;
        list.push_back({t, w == 1 ? dtensor::whole(shape) : random.box(shape)});
      }
    }
    const ReadPlan plan = plan_reads(manifest, wants, hosts);
    expect_deliveries(manifest, wants, hosts, plan);
    expect_needed_chunks(manifest, wants, hosts, plan);
    ASSERT_FALSE(HasFatalFailure()) << str(plan);
  }
}

TEST(ReadPlan, LargePiecesAreSharedOutByChunks) {
  RandomBoxes random(22);
  for (int i = 0; i < 12; ++i) {
    Manifest manifest;
    const Shape tall = {1 << 13, 1000};
    const Shape wide = {3, (1 << 21) + 17};
    manifest.tensors = {
        record_of("tall", DType::kF32, tall, random.partition(tall, i % 5)),
        record_of("wide", DType::kBF16, wide, random.partition(wide, i % 3))};
    Wants wants(static_cast<std::size_t>(random.number(2, 5)));
    const std::vector<int> hosts(wants.size(), 0);
    for (auto& list : wants) {
      list.push_back({0, i % 2 == 0 ? dtensor::whole(tall) : random.box(tall)});
      list.push_back({1, random.box(wide)});
    }
    const std::uint64_t wave_bytes = i % 3 == 0 ? 1 : 10 << 20;
    const ReadPlan plan = plan_reads(manifest, wants, hosts, wave_bytes);
    expect_deliveries(manifest, wants, hosts, plan);
    expect_needed_chunks(manifest, wants, hosts, plan);
    expect_waves(manifest, plan, std::max(wave_bytes, kChunkBytes));
    // A chunk on each side of a share, for each set of ranks, and what is not
    // worth handing on.
    expect_balance(manifest, hosts, plan, kChunkBytes * 5.0);
    ASSERT_FALSE(HasFatalFailure()) << i << '\n' << str(plan);
  }
}

TEST(ReadPlan, RanksReadWhatTheyNeed) {
  const Shape shape = {4, 1 << 20};
  Manifest manifest;
  manifest.tensors = {
      record_of("w", DType::kF32, shape, {dtensor::whole(shape)})};
  Wants wants;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    wants.push_back({{0, {{rank, 0}, {1, 1 << 20}}}});
  }
  const ReadPlan plan = plan_reads(manifest, wants, {0, 0, 0, 0});
  const auto reads = all_reads(plan);
  ASSERT_EQ(reads.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    const std::int64_t begin = std::int64_t{rank} << 20;
    const PlannedRead expected{
        rank, 0, 0, begin, begin + (1 << 20), {{rank, 0}}};
    EXPECT_EQ(reads[static_cast<std::size_t>(rank)], expected);
  }
}

TEST(ReadPlan, IdleRanksReadForOthers) {
  const Shape shape = {30, 1 << 20};
  Manifest manifest;
  manifest.tensors = {
      record_of("w", DType::kF32, shape, {dtensor::whole(shape)})};
  const Wants wants = {{{0, dtensor::whole(shape)}}, {}, {}};
  const std::vector<int> hosts = {0, 0, 0};
  const ReadPlan plan = plan_reads(manifest, wants, hosts);
  expect_deliveries(manifest, wants, hosts, plan);
  for (const auto& [rank, load] : loads_of(manifest, plan)) {
    EXPECT_NEAR(load, 10.0 * kChunkBytes, kChunkBytes) << rank;
  }
}

TEST(ReadPlan, ReplicasReadAShareEach) {
  const Shape shape = {24, 1 << 20};
  Manifest manifest;
  manifest.tensors = {
      record_of("w", DType::kF32, shape, {dtensor::whole(shape)})};
  const Wants wants(6, {{0, dtensor::whole(shape)}});
  const std::vector<int> hosts = {0, 0, 0, 1, 1, 1};
  const ReadPlan plan = plan_reads(manifest, wants, hosts);
  expect_deliveries(manifest, wants, hosts, plan);
  for (const auto& [rank, load] : loads_of(manifest, plan)) {
    EXPECT_EQ(load, 8.0 * kChunkBytes) << rank;
  }
}

TEST(ReadPlan, RefusesWhatIsNotThere) {
  Manifest manifest;
  manifest.tensors = {
      record_of("fc.w", DType::kF32, {4, 4}, {{{0, 0}, {3, 4}}})};
  EXPECT_NE(refusal([&] { (void)plan_reads(manifest, {{{1, {}}}}, {0}); }), "");
  EXPECT_NE(
      refusal([&] {
        (void)plan_reads(manifest, {{{0, {{0, 0}, {5, 1}}}}}, {0});
      }),
      "");
  EXPECT_NE(refusal([&] { (void)plan_reads(manifest, {{}}, {0, 1}); }), "");
  const std::string message = refusal<CheckpointError>([&] {
    (void)plan_reads(manifest, {{{0, {{2, 0}, {2, 4}}}}}, {0});
  });
  EXPECT_NE(message.find("4 elements of [2:4, 0:4] of fc.w"), std::string::npos)
      << message;
}

TEST(ReadPlan, IsFastForManyRanks) {
  Manifest manifest;
  const Shape shape = {1027, 96};
  for (int t = 0; t < 5000; ++t) {
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < 64; ++i) {
      Box box = dtensor::whole(shape);
      dtensor::cut(box, t % 2, 8, i / 8);
      dtensor::cut(box, 0, 8, i % 8);
      boxes.push_back(box);
    }
    manifest.tensors.push_back(
        record_of(str("layer", t), DType::kF32, shape, boxes));
    for (std::uint32_t i = 0; i < 64; ++i) {
      manifest.tensors.back().pieces[i].file = i;
      manifest.tensors.back().pieces[i].offset =
          static_cast<std::uint64_t>(t) * 7000;
    }
  }
  Wants wants(48);
  for (std::int64_t rank = 0; rank < 48; ++rank) {
    for (std::uint32_t t = 0; t < 5000; ++t) {
      Box box = dtensor::whole(shape);
      dtensor::cut(box, static_cast<int>(t / 2 % 2), 48, rank);
      wants[static_cast<std::size_t>(rank)].push_back({t, box});
    }
  }
  for (const int num_hosts : {1, 6}) {
    std::vector<int> hosts;
    for (int rank = 0; rank < 48; ++rank) {
      hosts.push_back(rank % num_hosts);
    }
    const std::clock_t start = std::clock();
    const ReadPlan plan = plan_reads(manifest, wants, hosts);
    const double took =
        static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    RecordProperty(str("seconds_", num_hosts), std::to_string(took));
    // 0.5 s on a quiet machine.
    EXPECT_LT(took, argosy::testing::kIsSanitized ? 50 : 5);
    expect_balance(manifest, hosts, plan, kChunkBytes * 2.0);
  }
}

} // namespace
} // namespace argosy::checkpoint
