#include "argosy/ps/table/page_feeder.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <vector>

#include "argosy/ps/table/pages.h"

namespace argosy::ps {
namespace {

// Of the 4 KB pages from `begin` on, those that the kernel has backed.
std::size_t backed(const std::byte* begin, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages(bytes / kPage);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), bytes, pages.data()), 0);
  std::size_t count = 0;
  for (const unsigned char page : pages) {
    count += page & 1;
  }
  return count * kPage;
}

TEST(PageFeeder, BacksWhatIsWantedAndChangesNothing) {
  Pages pages(16 * kHugePage);
  const auto feeder = std::make_shared<PageFeeder>();
  pages.data()[kHugePage + 5] = std::byte{7};
  pages.feed(feeder, kHugePage, 4 * kHugePage);
  feeder->await();
  if (backed(pages.data() + kHugePage, 3 * kHugePage) == 4096) {
    GTEST_SKIP() << "the kernel does not know MADV_POPULATE_WRITE";
  }
  EXPECT_EQ(backed(pages.data() + kHugePage, 3 * kHugePage), 3 * kHugePage);
  EXPECT_EQ(backed(pages.data() + 4 * kHugePage, 12 * kHugePage), 0u);
  EXPECT_EQ(pages.data()[kHugePage + 5], std::byte{7});
  EXPECT_EQ(pages.data()[kHugePage + 6], std::byte{0});
}

TEST(PageFeeder, StaysWithinThePages) {
  Pages pages(2 * kHugePage + 4096);
  const auto feeder = std::make_shared<PageFeeder>();
  pages.feed(feeder, 1, 100 * kHugePage);
  feeder->await();
  EXPECT_EQ(backed(pages.data(), kHugePage), 0u);
  EXPECT_EQ(backed(pages.data() + 2 * kHugePage, 4096), 0u);
}

// Else the next ones, which may get the same addresses, would be backed.
TEST(PageFeeder, LeavesPagesThatHaveGone) {
  const auto feeder = std::make_shared<PageFeeder>();
  for (int round = 0; round < 50; ++round) {
    {
      Pages pages(8 * kHugePage);
      pages.feed(feeder, 0, pages.size());
      Pages moved = std::move(pages);
    }
    const Pages next(8 * kHugePage);
    ASSERT_EQ(backed(next.data(), next.size()), 0u) << round;
  }
}

} // namespace
} // namespace argosy::ps
