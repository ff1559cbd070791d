// Files of one strategy become those of another, compared with what each rank
// holds by the definition, element by element.

#include "argosy/compat/transform_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/compat/strategy_oracle.h"

namespace argosy {
namespace {

using dtensor::Shape;
using std::filesystem::path;
using ::testing::AllOf;
using testing::ElementOracle;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using testing::RandomStrategies;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using testing::values_of;
using testing::words_of;

using Layouts = std::map<std::string, ParallelLayout>;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

ParallelStrategy strategy_with(Layouts layouts, int stage = 0) {
  ParallelStrategy strategy;
  strategy.current_stage = stage;
  strategy.layouts = std::move(layouts);
  return strategy;
}

path rank_file(const path& folder, int rank, const std::string& name) {
  return folder / str("rank_", rank) / name;
}

// The files of all devices of a stage, whose first rank is `first`.
void save_all(const path& folder, const Layouts& layouts, int first = 0) {
  const ElementOracle oracle(layouts.begin()->second);
  for (int device = 0; device < oracle.devices(); ++device) {
    testing::save_by_oracle(
        rank_file(folder, first + device, "net-1_1.safetensors"),
        layouts,
        device);
  }
}

void expect_values(
    const ParameterDict& dict, const Layouts& layouts, int device) {
  for (const auto& [name, layout] : layouts) {
    ASSERT_TRUE(dict.contains(name)) << name;
    const CheckpointTensor& tensor = dict.at(name);
    const auto elements =
        ElementOracle(layout).elements(*layout.tensor_shape, device);
    EXPECT_EQ(words_of(tensor.bytes), values_of(name, elements))
        << name << " " << layout << " device " << device;
    EXPECT_EQ(tensor.info.dtype, checkpoint::DType::kI32);
    if (!elements.empty()) {
      EXPECT_EQ(
          tensor.info.shape,
          testing::shape_of_elements(*layout.tensor_shape, elements));
    }
  }
}

void expect_files(
    const path& folder,
    const std::string& prefix,
    const Layouts& layouts,
    int first = 0) {
  const ElementOracle oracle(layouts.begin()->second);
  for (int device = 0; device < oracle.devices(); ++device) {
    const int rank = first + device;
    const auto dict = load_checkpoint(
        rank_file(folder, rank, str(prefix, rank, ".safetensors")));
    EXPECT_THAT(dict, SizeIs(layouts.size()));
    expect_values(dict, layouts, device);
  }
}

// The same parameters on other numbers of devices.
Layouts laid_out(
    RandomStrategies& random,
    const std::map<std::string, Shape>& shapes,
    int devices) {
  Layouts layouts;
  for (const auto& [name, shape] : shapes) {
    layouts[name] = random.layout(devices, shape);
  }
  return layouts;
}

std::map<std::string, Shape> random_shapes(
    RandomStrategies& random, const std::string& prefix = "p") {
  std::map<std::string, Shape> shapes;
  for (int i = 0; i < 16; ++i) {
    shapes[str(prefix, i)] = random.shape();
  }
  return shapes;
}

TEST(TransformCheckpoints, AnyStrategyBecomesAnyOther) {
  RandomStrategies random(11);
  for (int round = 0; round < 6; ++round) {
    const TempDir folder;
    const auto shapes = random_shapes(random);
    const Layouts src = laid_out(random, shapes, random.number(1, 9));
    const Layouts dst = laid_out(random, shapes, random.number(1, 9));
    save_all(folder.path() / "src", src);
    const auto report = transform_checkpoints(
        folder.path() / "src",
        folder.path() / "dst",
        "net",
        strategy_with(src),
        strategy_with(dst));
    EXPECT_EQ(report, TransformReport{});
    expect_files(folder.path() / "dst", "net", dst);
  }
}

TEST(TransformCheckpoints, ThereAndBackIsTheSame) {
  RandomStrategies random(12);
  const TempDir folder;
  const auto shapes = random_shapes(random);
  const auto a = strategy_with(laid_out(random, shapes, 8));
  const auto b = strategy_with(laid_out(random, shapes, 3));
  save_all(folder.path() / "a", a.layouts);
  transform_checkpoints(folder.path() / "a", folder.path() / "b", "b", a, b);
  transform_checkpoints(folder.path() / "b", folder.path() / "c", "c", b, a);
  expect_files(folder.path() / "c", "c", a.layouts);
}

TEST(TransformCheckpoints, OneRankNeedsItsListOfRanksOnly) {
  RandomStrategies random(13);
  for (int round = 0; round < 3; ++round) {
    const TempDir folder;
    const auto shapes = random_shapes(random);
    const auto src = strategy_with(laid_out(random, shapes, 8));
    const auto dst = strategy_with(laid_out(random, shapes, 6));
    save_all(folder.path(), src.layouts);
    for (int rank = 0; rank < 6; ++rank) {
      std::map<int, path> files;
      const auto ranks = rank_list_for_transform(rank, src, dst);
      EXPECT_TRUE(std::ranges::is_sorted(ranks, std::greater<>()));
      for (const int needed : ranks) {
        files[needed] = rank_file(folder.path(), needed, "net-1_1.safetensors");
      }
      if (files.empty()) {
        continue;
      }
      const path out = folder.path() / "out.safetensors";
      transform_checkpoint_by_rank(rank, files, out, src, dst);
      expect_values(load_checkpoint(out), dst.layouts, rank);
    }
  }
}

TEST(TransformCheckpoints, WithoutShapesTheRanksAndTheFilesAreTheSame) {
  const TempDir folder;
  Layouts src{{"w", ParallelLayout::of({2, 4}, {0, 1}, Shape{16, 8})}};
  Layouts dst{
      {"w",
       with_optimizer_shards(
           ParallelLayout::of({4, 2}, {0, -1}, Shape{16, 8}))}};
  save_all(folder.path() / "src", src);
  Layouts src_unknown = src;
  Layouts dst_unknown = dst;
  src_unknown["w"].tensor_shape.reset(); // as protobuf has it
  dst_unknown["w"].tensor_shape.reset();
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(
        rank_list_for_transform(
            rank, strategy_with(src_unknown), strategy_with(dst_unknown)),
        rank_list_for_transform(rank, strategy_with(src), strategy_with(dst)));
  }
  transform_checkpoints(
      folder.path() / "src",
      folder.path() / "dst",
      "n",
      strategy_with(src_unknown),
      strategy_with(dst_unknown));
  expect_files(folder.path() / "dst", "n", dst);
}

TEST(TransformCheckpoints, RanksOfTheReferencesExample) {
  // MatMul ((2, 4), (4, 1)): each slice of the weight is on two ranks.
  const auto src =
      strategy_with({{"w", ParallelLayout::of({2, 4, 1}, {1, 0})}});
  const auto dst = strategy_with({{"w", ParallelLayout::of({2}, {0, -1})}});
  EXPECT_THAT(rank_list_for_transform(0, src, dst), ElementsAre(1, 0));
  EXPECT_THAT(rank_list_for_transform(1, src, dst), ElementsAre(3, 2));
  EXPECT_THAT(rank_list_for_transform(0, src, {}), ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(rank_list_for_transform(1, {}, dst), ElementsAre(0));
  EXPECT_THROW(rank_list_for_transform(2, src, dst), InvalidArgument);
  EXPECT_THROW(rank_list_for_transform(0, {}, {}), InvalidArgument);
}

TEST(TransformCheckpoints, NoStrategyIsOneWholeFile) {
  RandomStrategies random(14);
  const TempDir folder;
  const auto shapes = random_shapes(random);
  const auto sliced = strategy_with(laid_out(random, shapes, 6));
  const Layouts whole = laid_out(random, shapes, 1);
  save_all(folder.path() / "src", sliced.layouts);
  transform_checkpoints(
      folder.path() / "src", folder.path() / "whole", "w", sliced, {});
  expect_files(folder.path() / "whole", "w", whole);
  transform_checkpoints(
      folder.path() / "whole", folder.path() / "dst", "d", {}, sliced);
  expect_files(folder.path() / "dst", "d", sliced.layouts);
}

Layouts of_stages(const std::vector<Layouts>& stages) {
  Layouts merged;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    for (const auto& [name, layout] : stages[stage]) {
      merged[str(stage, "-", name)] = layout;
    }
  }
  return merged;
}

TEST(TransformCheckpoints, PipelinesOnBothSides) {
  RandomStrategies random(15);
  const TempDir folder;
  const auto a = random_shapes(random, "a");
  const auto b = random_shapes(random, "b");
  const auto c = random_shapes(random, "c");
  auto ab = a;
  ab.insert(b.begin(), b.end());
  const Layouts s0 = laid_out(random, a, 4);
  const Layouts s1 = laid_out(random, b, 4);
  const Layouts s2 = laid_out(random, c, 4);
  save_all(folder.path() / "src", s0, 0);
  save_all(folder.path() / "src", s1, 4);
  save_all(folder.path() / "src", s2, 8);
  const Layouts d0 = laid_out(random, ab, 3);
  const Layouts d1 = laid_out(random, c, 3);
  transform_checkpoints(
      folder.path() / "src",
      folder.path() / "dst",
      "n",
      strategy_with(of_stages({s0, s1, s2})),
      strategy_with(of_stages({d0, d1})));
  expect_files(folder.path() / "dst", "n", d0, 0);
  expect_files(folder.path() / "dst", "n", d1, 3);
}

TEST(TransformCheckpoints, StagesOneByOneGiveTheSame) {
  RandomStrategies random(16);
  const TempDir folder;
  const auto a = random_shapes(random, "a");
  const auto b = random_shapes(random, "b");
  const Layouts s0 = laid_out(random, a, 4);
  const Layouts s1 = laid_out(random, b, 4);
  save_all(folder.path() / "src", s0, 0);
  save_all(folder.path() / "src", s1, 4);
  auto all = a;
  all.insert(b.begin(), b.end());
  const Layouts dst = laid_out(random, all, 2);
  const path out = folder.path() / "dst";
  const auto run = [&](const Layouts& stage, int number, const auto& target) {
    return transform_checkpoints(
        folder.path() / "src", out, "n", strategy_with(stage, number), target);
  };
  EXPECT_EQ(run(s0, 0, strategy_with(dst)).only_in_target.size(), b.size());
  run(s1, 1, strategy_with(dst));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(
        exists(rank_file(out, rank, str("n", rank, "_part1.safetensors"))));
    expect_values(
        load_segmented_checkpoints(out / str("rank_", rank)), dst, rank);
  }
  EXPECT_THAT(
      message_of([&] { run(s1, 1, std::nullopt); }),
      HasSubstr("stage 1 alone"));
  EXPECT_THROW(load_segmented_checkpoints(folder.path()), CheckpointError);
}

TEST(TransformCheckpoints, TheLastFileByNumberCounts) {
  const TempDir folder;
  const Layouts whole{{"w", ParallelLayout::of({1}, {-1}, Shape{4})}};
  const Layouts other{{"v", ParallelLayout::of({1}, {-1}, Shape{4})}};
  const Layouts dst{{"w", ParallelLayout::of({2}, {0}, Shape{4})}};
  for (const char* old : {"net-9_1.safetensors", "net-2_30.safetensors"}) {
    testing::save_by_oracle(rank_file(folder.path(), 0, old), other, 0);
  }
  testing::save_by_oracle(
      rank_file(folder.path(), 0, "net-10_1.safetensors"), whole, 0);
  transform_checkpoints(
      folder.path(), folder.path() / "dst", "n", {}, strategy_with(dst));
  expect_files(folder.path() / "dst", "n", dst);
}

TEST(TransformCheckpoints, LostFilesAreReplacedOrNamed) {
  const TempDir folder;
  const auto src =
      strategy_with({{"w", ParallelLayout::of({2, 2}, {0, -1}, Shape{4, 2})}});
  save_all(folder.path() / "src", src.layouts);
  remove_all(folder.path() / "src" / "rank_1");
  const auto run = [&] {
    transform_checkpoints(
        folder.path() / "src", folder.path() / "dst", "n", src, {});
  };
  run();
  expect_values(
      load_checkpoint(rank_file(folder.path() / "dst", 0, "n0.safetensors")),
      {{"w", ParallelLayout::of({1}, {-1, -1}, Shape{4, 2})}},
      0);
  remove_all(folder.path() / "src" / "rank_3");
  EXPECT_THAT(
      message_of(run), AllOf(HasSubstr("w [2:4"), HasSubstr("src/rank_3")));
  EXPECT_THAT(
      message_of([&] {
        transform_checkpoints(folder.path() / "nothing", "x", "n", src, {});
      }),
      HasSubstr("nothing"));
}

TEST(TransformCheckpoints, SlicesOfOtherShapesAreNamed) {
  const TempDir folder;
  const Layouts saved{{"fc.w", ParallelLayout::of({2}, {0, -1}, Shape{4, 2})}};
  save_all(folder.path() / "src", saved);
  const auto claimed =
      strategy_with({{"fc.w", ParallelLayout::of({2}, {0, -1}, Shape{6, 2})}});
  EXPECT_THAT(
      message_of([&] {
        transform_checkpoints(
            folder.path() / "src", folder.path() / "dst", "n", claimed, {});
      }),
      AllOf(
          HasSubstr("rank_0/net-1_1.safetensors"),
          HasSubstr("fc.w I32 [2, 2]"),
          HasSubstr("[3, 2]")));
  EXPECT_FALSE(exists(folder.path() / "dst" / "rank_0" / "n0.safetensors"));
}

TEST(TransformCheckpoints, WhatIsLeftOutIsListed) {
  const TempDir folder;
  const auto w = ParallelLayout::of({2}, {0}, Shape{4});
  save_all(folder.path() / "src", {{"a", w}, {"b", w}, {"epoch_num", w}});
  const auto report = transform_checkpoints(
      folder.path() / "src",
      folder.path() / "dst",
      "n",
      strategy_with({{"a", w}, {"b", w}}),
      strategy_with({{"b", w}, {"c", w}}));
  EXPECT_EQ(report, (TransformReport{{"a", "epoch_num"}, {"c"}}));
  expect_files(folder.path() / "dst", "n", {{"b", w}});
}

TEST(LoadDistributedCheckpoint, MergesOrSlicesAgain) {
  RandomStrategies random(17);
  const TempDir folder;
  const auto shapes = random_shapes(random);
  const auto train = strategy_with(laid_out(random, shapes, 6));
  const auto predict = strategy_with(laid_out(random, shapes, 4));
  const Layouts whole = laid_out(random, shapes, 1);
  save_all(folder.path(), train.layouts);
  std::vector<path> files;
  for (int rank = 0; rank < 6; ++rank) {
    files.push_back(rank_file(folder.path(), rank, "net-1_1.safetensors"));
  }
  expect_values(load_distributed_checkpoint(files, {}, train), whole, 0);
  for (int rank = 0; rank < 4; ++rank) {
    expect_values(
        load_distributed_checkpoint(files, predict, train, rank),
        predict.layouts,
        rank);
  }
  files.pop_back();
  EXPECT_THAT(
      message_of([&] { load_distributed_checkpoint(files, {}, train); }),
      AllOf(HasSubstr("5 files"), HasSubstr("6")));
  files.emplace_back(folder.path() / "absent.safetensors");
  EXPECT_THAT(
      message_of([&] { load_distributed_checkpoint(files, {}, train); }),
      HasSubstr("absent.safetensors"));
}

TEST(MergeSlicedParameter, ByStrategyOrByRows) {
  RandomStrategies random(18);
  for (int round = 0; round < 20; ++round) {
    const Shape shape = random.shape();
    const auto layout = random.layout(6, shape);
    std::vector<CheckpointTensor> slices;
    for (int device = 0; device < 6; ++device) {
      const auto words =
          values_of("w", ElementOracle(layout).elements(shape, device));
      const auto bytes = std::as_bytes(std::span(words));
      slices.push_back(
          {{"w",
            checkpoint::DType::kI32,
            compat::box_of(layout, shape, device).size},
           {bytes.begin(), bytes.end()}});
    }
    expect_values(
        {{"w", merge_sliced_parameter(slices, strategy_with({{"w", layout}}))}},
        {{"w", ParallelLayout::unsharded(shape)}},
        0);
    EXPECT_THROW(
        merge_sliced_parameter(slices, strategy_with({{"v", layout}})),
        InvalidArgument);
    slices.pop_back();
    EXPECT_THROW(
        merge_sliced_parameter(slices, strategy_with({{"w", layout}})),
        InvalidArgument);
  }
  const CheckpointTensor a{
      {"r", checkpoint::DType::kU8, {1, 2}},
      std::vector<std::byte>(2, std::byte{1})};
  const CheckpointTensor b{
      {"r", checkpoint::DType::kU8, {2, 2}},
      std::vector<std::byte>(4, std::byte{2})};
  const auto rows = merge_sliced_parameter({a, b});
  EXPECT_EQ(rows.info.shape, (Shape{3, 2}));
  EXPECT_THAT(
      rows.bytes,
      ElementsAre(
          std::byte{1},
          std::byte{1},
          std::byte{2},
          std::byte{2},
          std::byte{2},
          std::byte{2}));
}

} // namespace
} // namespace argosy
