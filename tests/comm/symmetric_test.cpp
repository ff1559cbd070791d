// Tensors in memory that all ranks of a group share: the same results as with
// any others, alone, as views, and beside others.

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "argosy/comm/ops.h"
#include "argosy/comm/symmetric.h"
#include "argosy/common/error.h"
#include "argosy/heap/heap.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"

namespace argosy::comm {
namespace {

using ::testing::HasSubstr;

at::Tensor numbers(std::int64_t count, int rank) {
  return at::arange(count).remainder(31).add(13 * rank).to(at::kFloat);
}

// Where a tensor lies: in symmetric memory, in the heap that others see, or in
// memory that the user has brought.
enum class Where { Symmetric, Heap, Private };

at::Tensor empty_in(Where where, const at::Tensor& like) {
  const std::size_t bytes = std::max<std::size_t>(like.nbytes(), 1);
  switch (where) {
    case Where::Symmetric:
      return symmetric_empty(like.sizes(), like.scalar_type());
    case Where::Heap:
      return at::empty_like(like);
    default:
      return at::from_blob(
          std::malloc(bytes), like.sizes(), std::free, like.options());
  }
}

at::Tensor placed(const at::Tensor& values, Where where) {
  return empty_in(where, values).copy_(values);
}

// Every rank asks for the memory; which of them use it is another matter.
void check_all(const World& world, std::int64_t count, Where where) {
  const int rank = world.rank();
  const int size = world.size();
  const auto expect =
      [&](const at::Tensor& got, const at::Tensor& expected, const char* op) {
        EXPECT_TRUE(at::equal(got, expected)) << op << " of " << count;
      };
  const auto place = [&](const at::Tensor& values) {
    const at::Tensor shared = placed(values, Where::Symmetric);
    return where == Where::Symmetric ? shared : placed(values, where);
  };
  at::Tensor sum = at::zeros({count});
  at::Tensor joined = at::empty({size, count});
  at::Tensor wide_sum = at::zeros({size * count});
  for (int peer = 0; peer < size; ++peer) {
    sum += numbers(count, peer);
    joined[peer].copy_(numbers(count, peer));
    wide_sum += numbers(size * count, peer);
  }

  at::Tensor data = place(numbers(count, rank));
  all_reduce(data);
  expect(data, sum, "all_reduce");

  // A view from the middle.
  at::Tensor frame = place(at::full({count + 20}, -1.0f));
  at::Tensor middle = frame.narrow(0, 7, count);
  middle.copy_(numbers(count, rank));
  all_reduce(middle);
  expect(middle, sum, "all_reduce of a view");
  EXPECT_EQ(frame.narrow(0, 0, 7).max().item<float>(), -1);
  EXPECT_EQ(frame.narrow(0, count + 7, 13).max().item<float>(), -1);

  data.copy_(numbers(count, rank));
  broadcast(data, size - 1);
  expect(data, numbers(count, size - 1), "broadcast");

  data.copy_(numbers(count, rank));
  reduce(data, 0);
  expect(data, rank == 0 ? sum : numbers(count, rank), "reduce");

  data.copy_(numbers(count, rank));
  at::Tensor all = place(at::full({size, count}, -1.0f));
  all_gather(all, data);
  expect(all, joined, "all_gather");

  at::Tensor wide = place(numbers(size * count, rank));
  reduce_scatter(data, wide);
  expect(data, wide_sum.narrow(0, rank * count, count), "reduce_scatter");

  at::Tensor swapped = place(at::full({size * count}, -1.0f));
  alltoall_single(swapped, wide);
  for (int peer = 0; peer < size; ++peer) {
    expect(
        swapped.narrow(0, peer * count, count),
        numbers(size * count, peer).narrow(0, rank * count, count),
        "alltoall_single");
  }
}

const std::vector<std::int64_t> kCounts = {0, 1, 1000, 100003, 1 << 20};

TEST(SymmetricThreads, SameResults) {
  testing::run_ranks(3, [](World& world) {
    for (const std::int64_t count : kCounts) {
      check_all(world, count, Where::Symmetric);
    }
  });
}

TEST(SymmetricProcesses, SameResultsAlsoBesideTensorsThatAreNot) {
  testing::run_process_ranks(3, [](World& world) {
    for (const std::int64_t count : kCounts) {
      check_all(world, count, Where::Symmetric);
    }
    for (const std::int64_t count : {1000, 100003}) {
      for (const Where mine : {Where::Symmetric, Where::Heap, Where::Private}) {
        for (const Where other :
             {Where::Symmetric, Where::Heap, Where::Private}) {
          check_all(world, count, world.rank() == 1 ? mine : other);
        }
      }
    }
  });
}

TEST(HeapProcesses, OrdinaryTensorsAreInIt) {
  testing::run_process_ranks(2, [](World&) {
    const at::Tensor tensor = at::ones({100'000});
    ASSERT_NE(heap::shared_heap(), nullptr);
    EXPECT_TRUE(heap::shared_heap()->contains(tensor.data_ptr()));
  });
}

TEST(HeapProcesses, MessagesComeFromIt) {
  testing::run_process_ranks(2, [](World& world) {
    for (const Where where : {Where::Heap, Where::Private}) {
      at::Tensor data = placed(numbers(100'000, world.rank()), where);
      if (world.rank() == 0) {
        send(data, 1);
      } else {
        recv(data, 0);
        EXPECT_TRUE(at::equal(data, numbers(100'000, 0)));
      }
    }
  });
}

TEST(SymmetricProcesses, OutlivesItsGroup) {
  testing::run_process_ranks(2, [](World&) {
    auto group = new_group();
    at::Tensor tensor = symmetric_empty({100}, at::kFloat, group);
    destroy_process_group(group);
    group.reset();
    tensor.fill_(3);
    all_reduce(tensor); // of another group: a tensor like any other
    EXPECT_EQ(tensor.sum().item<float>(), 600);
  });
}

TEST(SymmetricProcesses, MemoryIsGivenBack) {
  testing::run_process_ranks(2, [](World& world) {
    const std::int64_t count = std::int64_t{64} << 20; // 256 MB
    for (int i = 0; i < 40; ++i) {                     // 20 GB, if it were kept
      at::Tensor tensor = symmetric_empty({count}, at::kFloat);
      tensor.narrow(0, 0, 1000).fill_(world.rank());
      all_reduce(tensor.narrow(0, 0, 1000));
      EXPECT_EQ(tensor[999].item<float>(), 1);
    }
  });
}

TEST(Symmetric, RanksThatDisagreeAboutTheSizeAllKnow) {
  testing::run_ranks(2, [](World& world) {
    try {
      symmetric_empty({8 + world.rank()}, at::kFloat);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("32 bytes on rank 0, of 36 on rank"));
    }
  });
}

TEST(Symmetric, BackendsWithoutSharedMemorySaySo) {
  testing::run_ranks(2, [](World&) {
    const auto group = new_group({}, "c10d");
    try {
      symmetric_empty({8}, at::kFloat, group);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("shares no memory"));
    }
  });
}

} // namespace
} // namespace argosy::comm
