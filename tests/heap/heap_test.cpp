// Memory that other processes can map.

#include "argosy/heap/heap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/heap/heap_view.h"

namespace argosy::heap {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

// Pages that the heap really has, by the size of its file on disk.
std::size_t pages_bytes(const Heap& heap) {
  const auto words = split(heap.description(), ' ');
  struct stat status {};
  EXPECT_EQ(::stat(str("/proc/self/fd/", words[1]).c_str(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Heap, GivesMemoryThatHoldsWhatIsWritten) {
  Heap heap(Sharing::Shared, 64 * kMega);
  auto* a = static_cast<char*>(heap.allocate(10'000));
  auto* b = static_cast<char*>(heap.allocate(10'000));
  std::memset(a, 'a', 10'000);
  std::memset(b, 'b', 10'000);
  EXPECT_EQ(a[9'999], 'a');
  EXPECT_TRUE(heap.contains(a) && heap.contains(b + 9'999));
  EXPECT_FALSE(heap.contains(&heap));
  EXPECT_EQ(heap.allocate(65 * kMega), nullptr) << "longer than the heap";
  heap.free(a);
  EXPECT_EQ(heap.allocate(9'000), a);
}

TEST(Heap, NeverHoldsMoreThanWasInUseAtOnce) {
  Heap heap(Sharing::Shared, 4096 * kMega);
  for (int i = 1; i <= 30; ++i) { // of sizes that do not fit each other
    const std::size_t bytes = static_cast<std::size_t>(7 * i) * kMega;
    void* data = heap.allocate(bytes);
    ASSERT_NE(data, nullptr);
    void* behind = heap.allocate(kMega);
    ::madvise(data, bytes, MADV_POPULATE_WRITE);
    heap.free(data);
    heap.free(behind);
  }
  EXPECT_LE(pages_bytes(heap), (7 * 30 + 1 + 64) * kMega);
}

// Of other processes: in the tests of comm, with real ranks.
TEST(HeapView, OfTheOwnProcessIsTheHeapItself) {
  Heap heap(Sharing::Shared, 16 * kMega);
  void* data = heap.allocate(kMega);
  const auto view = HeapView::open(heap.description());
  EXPECT_EQ(view->at(reinterpret_cast<std::uint64_t>(data)), data);
  EXPECT_EQ(HeapView::open(heap.description()), view) << "one for all groups";
}

TEST(HeapView, OfAnotherHostCannotBeHad) {
  EXPECT_THROW(HeapView::open("1 3 other-boot/1234 4096 8192"), SystemError);
}

TEST(Heap, AChildLeavesItToTheParent) {
  Heap* heap = make_process_heap(Sharing::Shared);
  ASSERT_NE(heap, nullptr);
  EXPECT_EQ(make_process_heap(Sharing::Shared), heap);
  EXPECT_EQ(shared_heap(), heap);
  void* data = heap->allocate(kMega);
  const pid_t child = ::fork();
  if (child == 0) {
    heap->free(data); // does nothing
    ::_exit(heap->allocate(kMega) == nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(heap->allocate(kMega), data);
}

TEST(Heap, APrivateOneIsCopiedForAChild) {
  Heap heap(Sharing::Private, 64 * kMega);
  auto* data = static_cast<int*>(heap.allocate(kMega));
  data[0] = 1;
  const pid_t child = ::fork();
  if (child == 0) {
    data[0] = 2;
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(data[0], 1);
  heap.free(data);
  EXPECT_EQ(heap.allocate(kMega), data);
}

TEST(Heap, ThreadsMayUseItTogether) {
  Heap heap(Sharing::Shared, 256 * kMega);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&heap, id] {
      for (std::size_t i = 0; i < 2'000; ++i) {
        const std::size_t bytes = 1 + i * 37 % 100'000;
        auto* data = static_cast<char*>(heap.allocate(bytes));
        ASSERT_NE(data, nullptr);
        data[0] = data[bytes - 1] = static_cast<char>(id);
        std::this_thread::yield();
        ASSERT_EQ(data[0], id);
        ASSERT_EQ(data[bytes - 1], id);
        heap.free(data);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

} // namespace
} // namespace argosy::heap
