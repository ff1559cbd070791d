// How work is cut and shared.

#include "argosy/optim/pieces.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

namespace argosy::optim {
namespace {

TEST(Pieces, CoverAllSpansInOrder) {
  const std::vector<Piece> expected = {
      {0, 0, 10}, {0, 10, 10}, {0, 20, 1}, {2, 0, 3}, {3, 0, 10}};
  EXPECT_EQ(cut({21, 0, 3, 10}, 10), expected);
  EXPECT_TRUE(cut({}).empty());
}

// Each once, whatever the number of threads and however unequal the pieces.
TEST(Pieces, AreDoneOnceEach) {
  const int before = at::get_num_threads();
  const std::vector<Piece> pieces = cut({1, 700000, 7, 800000, 3, 3, 3, 16384});
  for (const int num_threads : {1, 2, 3, 5}) {
    at::set_num_threads(num_threads);
    std::vector<std::atomic<int>> times(pieces.size());
    std::set<std::thread::id> threads;
    std::mutex mutex;
    for_each_piece(pieces, [&](std::size_t i) {
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
