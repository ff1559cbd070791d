// Parts of samples: what each rank loads, against the whole samples.

#include "argosy/semi_auto/sample_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/semi_auto/shard_dataloader.h"
#include "argosy/semi_auto/sliced_dataset.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/dtensor/op_checks.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::refusal;
using argosy::testing::run_ranks;
using ::testing::HasSubstr;

namespace F = torch::nn::functional;

constexpr double kFill = -7;

// Oracle for one dim: the indices that a rank has, -1 for fill, by torch's own
// chunk() of all indices.
std::vector<std::int64_t> indices_of(
    std::int64_t size,
    const std::vector<std::pair<std::int64_t, std::int64_t>>& cuts,
    const Halo& halo,
    const SliceOptions& options) {
  std::int64_t parts = 1;
  for (const auto& [count, index] : cuts) {
    parts *= count;
  }
  std::int64_t all = size;
  if (options.uneven != UnevenSlices::Keep) {
    all = options.uneven == UnevenSlices::Drop
        ? size / parts * parts
        : (size + parts - 1) / parts * parts;
  }
  torch::Tensor own = torch::arange(all);
  for (const auto& [count, index] : cuts) {
    const auto chunks = own.numel() > 0 ? own.chunk(count) : Tensors();
    own = index < static_cast<std::int64_t>(chunks.size())
        ? chunks[static_cast<std::size_t>(index)]
        : torch::empty({0}, torch::kLong);
  }
  std::vector<std::int64_t> result;
  if (own.numel() == 0) {
    return result;
  }
  const auto first = own[0].item<std::int64_t>() - halo.before;
  const auto last = own[-1].item<std::int64_t>() + halo.behind;
  for (std::int64_t i = first; i <= last; ++i) {
    const bool is_inside = i >= 0 && i < all;
    if (is_inside || options.fill_border) {
      result.push_back(is_inside && i < size ? i : -1);
    }
  }
  return result;
}

// Takes those indices of one dim, and the fill for -1.
torch::Tensor taken(
    const torch::Tensor& from,
    std::int64_t dim,
    const std::vector<std::int64_t>& indices) {
  auto shape = from.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = 1;
  const torch::Tensor fill = torch::full(shape, kFill);
  shape[static_cast<std::size_t>(dim)] = 0;
  Tensors parts = {torch::empty(shape)};
  for (const std::int64_t index : indices) {
    parts.push_back(index < 0 ? fill : from.narrow(dim, index, 1));
  }
  return torch::cat(parts, dim);
}

struct Case {
  ProcessMesh mesh;
  Placements of_batch;
  dtensor::Shape sample;
  SliceOptions options;
};

std::vector<Case> some_cases() {
  const auto line = ProcessMesh::of_shape({4});
  const auto plane = ProcessMesh::of_shape({2, 3}, {"dp", "sp"});
  const auto cube = ProcessMesh::of_shape({2, 2, 2});
  std::vector<Case> cases;
  for (const auto uneven :
       {UnevenSlices::Keep, UnevenSlices::Pad, UnevenSlices::Drop}) {
    for (const bool fill_border : {true, false}) {
      for (const std::int64_t halo : {0, 1, 3}) {
        const auto add = [&](const ProcessMesh& mesh,
                             const Placements& of_batch,
                             const dtensor::Shape& sample) {
          std::vector<Halo> halos(sample.size());
          halos.back() = {halo, 2 * halo};
          halos.front() = {halo, 0};
          cases.push_back(
              {mesh, of_batch, sample, {halos, fill_border, uneven}});
        };
        for (const std::int64_t size : {4, 5, 7, 8, 13}) {
          add(line, {Shard(1)}, {size});
          add(line, {Shard(-1)}, {3, size});
          add(line, {Shard(0)}, {size});
          add(line, {Replicate()}, {size, 2});
          add(plane, {Shard(0), Shard(2)}, {2, size});
          add(plane, {Shard(2), Shard(1)}, {size, size + 2});
          add(cube, {Shard(1), Shard(0), Shard(2)}, {size, 6});
          add(cube, {Shard(2), Shard(2), Replicate()}, {3, size});
        }
      }
    }
  }
  return cases;
}

TEST(SampleSlice, IsThePartThatChunksGive) {
  int compared = 0;
  for (const Case& test : some_cases()) {
    const torch::Tensor sample = exact_values(test.sample);
    const auto ndim = static_cast<std::int64_t>(test.sample.size());
    for (int rank = 0; rank < test.mesh.size(); ++rank) {
      const LoadPlan plan = plan_loading(
          test.sample, test.mesh, test.of_batch, rank, test.options);
      torch::Tensor expected = sample;
      for (std::int64_t dim = 0; dim < ndim; ++dim) {
        std::vector<std::pair<std::int64_t, std::int64_t>> cuts;
        for (int axis = 0; axis < test.mesh.ndim(); ++axis) {
          const auto at = static_cast<std::size_t>(axis);
          const Placement placed = test.of_batch[at];
          if (placed.is_shard(static_cast<int>(dim) + 1) ||
              placed.is_shard(static_cast<int>(dim - ndim))) {
            cuts.emplace_back(
                test.mesh.shape()[at],
                test.mesh.get_rank_by_dim_and_process_id(axis, rank));
          }
        }
        expected = taken(
            expected,
            dim,
            indices_of(
                test.sample[static_cast<std::size_t>(dim)],
                cuts,
                test.options.halos[static_cast<std::size_t>(dim)],
                test.options));
      }
      ASSERT_EQ(at::IntArrayRef(plan.slice.shape()), expected.sizes())
          << plan.slice << " of " << test.sample << " on rank " << rank;
      ASSERT_TRUE(torch::equal(cut_sample(sample, plan.slice, kFill), expected))
          << plan.slice << " of " << test.sample << " on rank " << rank;
      ++compared;
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST(SampleSlice, RanksThatCutSamplesShareThem) {
  const auto mesh = ProcessMesh::of_shape({2, 2, 2});
  const auto share = [&](const Placements& of_batch, int rank) {
    const LoadPlan plan = plan_loading({4, 4}, mesh, of_batch, rank);
    return std::pair(plan.num_replicas, plan.replica);
  };
  EXPECT_EQ(share({Shard(0), Shard(1), Shard(2)}, 5), std::pair(2, 1));
  EXPECT_EQ(share({Shard(0), Shard(1), Shard(-3)}, 5), std::pair(4, 3));
  EXPECT_EQ(share({Shard(0), Replicate(), Shard(0)}, 6), std::pair(4, 2));
  EXPECT_EQ(share({Shard(1), Shard(1), Shard(2)}, 5), std::pair(1, 0));
}

TEST(SampleSlice, WhatCannotBeIsRefused) {
  const auto mesh = ProcessMesh::of_shape({4});
  const auto refused = [&](const Placements& of_batch,
                           const SliceOptions& options = {},
                           int rank = 0) {
    return refusal([&] {
      plan_loading({3, 5}, mesh, of_batch, rank, options);
    });
  };
  EXPECT_THAT(refused({Partial()}), HasSubstr("placement P(sum) of mesh axis"));
  EXPECT_THAT(refused({Shard(3)}), HasSubstr("for a tensor of 3 dims"));
  EXPECT_THAT(
      refused({Shard(1)}, {.halos = {{1, 1}}}),
      HasSubstr("1 halos, expected one for each of 2 dims"));
  EXPECT_THAT(
      refused({Shard(1)}, {.halos = {{1, 1}, {0, -1}}}),
      HasSubstr("a halo of 0 and -1 elements"));
  EXPECT_THAT(
      refused({Shard(1)}, {.uneven = UnevenSlices::Drop}),
      HasSubstr("dim 0 of a sample has 3 elements, which 4 ranks do not"));
  EXPECT_THAT(refused({Shard(1)}, {}, 4), HasSubstr("rank 4 is not in"));
  const auto plan = plan_loading({3, 5}, mesh, {Shard(1)}, 1);
  EXPECT_THAT(
      refusal([&] { cut_sample(torch::ones({3}), plan.slice); }),
      HasSubstr("a sample of 1 dims, expected 2"));
  EXPECT_THAT(
      refusal([&] {
        cut_sample(torch::ones({1, 5}), plan.slice);
      }),
      HasSubstr("expected 2 or more in dim 0"));
}

// As MindSpore's width-sharded images: each rank's convolution of its part and
// its halos is its part of the whole convolution.
TEST(SampleSlice, ConvolutionsOfPartsAreThoseOfTheWhole) {
  const auto mesh = ProcessMesh::of_shape({4});
  const torch::Tensor image = exact_values({2, 6, 11});
  const torch::Tensor weight = exact_values({3, 2, 3, 3}, 1);
  const torch::Tensor whole =
      F::conv2d(image.unsqueeze(0), weight, F::Conv2dFuncOptions().padding(1));
  Tensors parts;
  for (int rank = 0; rank < 4; ++rank) {
    const LoadPlan plan = plan_loading(
        {2, 6, 11}, mesh, {Shard(3)}, rank, {.halos = {{}, {1, 1}, {1, 1}}});
    parts.push_back(
        F::conv2d(cut_sample(image, plan.slice).unsqueeze(0), weight));
  }
  EXPECT_TRUE(torch::equal(torch::cat(parts, 3), whole));
}

// Samples that are read in parts, and how much was read of them.
struct PartlyRead {
  torch::Tensor all;
  std::shared_ptr<std::atomic<std::int64_t>> elements =
      std::make_shared<std::atomic<std::int64_t>>(0);

  std::int64_t size() const { return all.size(0); }
  torch::Tensor get_part(std::int64_t index, const dtensor::Box& box) const {
    *elements += box.numel();
    return all[index]
        .narrow(0, box.offset[0], box.size[0])
        .narrow(1, box.offset[1], box.size[1]);
  }
};

struct Whole {
  torch::Tensor all;
  std::int64_t size() const { return all.size(0); }
  torch::Tensor get(std::int64_t index) const { return all[index]; }
};

template <typename D>
torch::Tensor first_batch(
    const D& dataset, const ProcessMesh& mesh, const Placements& placements) {
  const auto plan = plan_loading({4, 6}, mesh, placements, get_rank());
  data::DataLoader loader(
      SlicedDataset(dataset, plan.slice),
      data::DistributedBatchSampler(
          dataset.size(),
          {.batch_size = 2,
           .num_replicas = plan.num_replicas,
           .rank = plan.replica,
           .shuffle = true,
           .seed = 5}),
      data::stack_tensors);
  auto placed = shard_dataloader(
      loader, {{mesh, placements}}, {.is_dataset_splitted = true});
  return full_tensor(*placed.next());
}

TEST(SampleSliceRanks, LoadPartsThatMakeTheWholeBatch) {
  const torch::Tensor samples = exact_values({8, 4, 6});
  run_ranks(4, [&](World&) {
    const auto mesh = ProcessMesh::of_shape({2, 2}, {"dp", "sp"});
    const auto one = ProcessMesh::of_shape({4});
    const torch::Tensor expected =
        first_batch(Whole{samples}, mesh, {Shard(0), Replicate()});
    EXPECT_EQ(expected.size(0), 4);
    const PartlyRead parts{samples};
    for (const int dim : {1, 2}) {
      EXPECT_TRUE(torch::equal(
          first_batch(Whole{samples}, mesh, {Shard(0), Shard(dim)}), expected));
      const std::int64_t before = *parts.elements;
      EXPECT_TRUE(torch::equal(
          first_batch(parts, mesh, {Shard(0), Shard(dim)}), expected));
      // The loader reads ahead, but nothing else than halves of samples.
      EXPECT_EQ((*parts.elements - before) % 12, 0);
      EXPECT_LE(*parts.elements - before, 4 * 12);
    }
  });
}

} // namespace
} // namespace argosy
