// Loops over many tensors on several threads.

#include "argosy/optim/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace argosy::optim {
namespace {

TEST(ParallelFor, CoverAllSpansInOrder) {
  const std::vector<Chunk> expected = {
      {0, 0, 10}, {0, 10, 10}, {0, 20, 1}, {2, 0, 3}, {3, 0, 10}};
  EXPECT_EQ(chunks_of({21, 0, 3, 10}, 10), expected);
  EXPECT_TRUE(chunks_of({}).empty());
}

// Each once, whatever the number of threads and however unequal the chunks.
TEST(ParallelFor, AreDoneOnceEach) {
  const int before = at::get_num_threads();
  const std::vector<Chunk> chunks =
      chunks_of({1, 700000, 7, 800000, 3, 3, 3, 16384});
  for (const int num_threads : {1, 2, 3, 5}) {
    at::set_num_threads(num_threads);
    std::vector<std::atomic<int>> times(chunks.size());
    std::set<std::thread::id> threads;
    std::mutex mutex;
    parallel_for(chunks, [&](std::size_t i) {
      ++times[i];
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    for (const auto& count : times) {
      EXPECT_EQ(count, 1);
    }
    EXPECT_EQ(threads.size() > 1, num_threads > 1);
  }
  at::set_num_threads(before);
}

} // namespace
} // namespace argosy::optim
