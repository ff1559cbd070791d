// Buffers in a file while nobody uses them, and what happens when the disk does
// not play along.

#include "argosy/offload/tier.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/testing/gtest_ranks.h"
#include "tests/support/parent_temp_dir.h"
#include "tests/support/refusal.h"

namespace argosy::offload {
namespace {

using argosy::testing::refusal;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kMegabyte = 1 << 20;

// Bytes that tell slots and rounds apart.
at::Tensor content(std::int64_t bytes, int seed) {
  return torch::arange(bytes).mul_(seed + 3).remainder_(251).to(torch::kByte);
}

struct Way {
  OffloadIo io;
  bool direct = true;
  bool checksum = false;
  int ahead = 1;
};

std::vector<Way> ways() {
  return {
      {OffloadIo::Auto},
      {OffloadIo::Auto, false, true, 0},
      {OffloadIo::Threads},
      {OffloadIo::Threads, false, true, 2},
      {OffloadIo::Mapped}};
}

OffloadOptions options_of(
    const Way& way, const TempDir& dir, std::int64_t budget) {
  return {
      .offload_path = (dir.path() / "new" / "folder").string(),
      .offload_cpu_size = budget,
      .io = way.io,
      .direct = way.direct,
      .checksum = way.checksum,
      .ahead = way.ahead};
}

// Changes all slots in every round, and sees that they have what they had.
void check_rounds(
    OffloadTier& tier,
    const std::vector<std::int64_t>& sizes,
    const std::vector<std::size_t>& order) {
  std::vector<at::Tensor> expected;
  for (const std::int64_t bytes : sizes) {
    expected.push_back(torch::zeros({bytes}, torch::kByte));
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t slot : order) {
      const at::Tensor memory = tier.fetch(slot);
      EXPECT_TRUE(torch::equal(memory, expected[slot]))
          << slot << ", " << round;
      const bool changes = round != 1;
      if (changes) {
        expected[slot] = content(sizes[slot], 10 * round + int(slot));
        memory.copy_(expected[slot]);
      }
      tier.put_back(slot, changes);
    }
  }
}

TEST(OffloadTier, KeepsWhatIsPutBack) {
  const std::vector<std::int64_t> sizes{
      kMegabyte + 5, 1, 4096, 70000, kMegabyte};
  for (const Way& way : ways()) {
    for (const std::int64_t budget : {0L, 80000L, 100 * kMegabyte}) {
      SCOPED_TRACE(::testing::Message() << int(way.io) << ", " << budget);
      const TempDir dir;
      OffloadTier tier(options_of(way, dir, budget));
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        EXPECT_EQ(tier.add(sizes[i]), i);
      }
      check_rounds(tier, sizes, {0, 1, 2, 3, 4});
    }
  }
}

TEST(OffloadTier, AnyOrderGivesTheSameBytes) {
  const std::vector<std::int64_t> sizes(4, kMegabyte);
  for (const Way& way : ways()) {
    const TempDir dir;
    OffloadTier tier(options_of(way, dir, kMegabyte));
    for (const std::int64_t bytes : sizes) {
      tier.add(bytes);
    }
    check_rounds(tier, sizes, {3, 1, 0, 2});
  }
}

TEST(OffloadTier, MemoryIsTheBudgetAndThreeBuffers) {
  for (const OffloadIo io : {OffloadIo::Auto, OffloadIo::Threads}) {
    for (const std::int64_t stay : {0, 3, 8}) {
      const TempDir dir;
      OffloadTier tier(options_of({io}, dir, stay * kMegabyte));
      for (int i = 0; i < 8; ++i) {
        tier.add(kMegabyte);
      }
      check_rounds(
          tier,
          std::vector<std::int64_t>(8, kMegabyte),
          {0, 1, 2, 3, 4, 5, 6, 7});
      const OffloadStats stats = tier.stats();
      EXPECT_LE(stats.peak, std::min<std::int64_t>(8, stay + 3) * kMegabyte);
      EXPECT_EQ(stats.file, (8 - stay) * kMegabyte);
      // All are read in two of three rounds, and written in two.
      EXPECT_EQ(stats.read, 2 * stats.file);
      EXPECT_EQ(stats.written, 2 * stats.file);
      EXPECT_EQ(tier.plan().memory, stay * kMegabyte);
    }
  }
}

std::int64_t resident_bytes() {
  std::ifstream numbers("/proc/self/statm"); // in pages: all, resident, ...
  std::int64_t all = 0;
  std::int64_t resident = 0;
  numbers >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// 32 MB, of which 4 are in use at one time.
TEST(OffloadTier, BuffersLeaveTheProcess) {
  for (const OffloadIo io :
       {OffloadIo::Auto, OffloadIo::Threads, OffloadIo::Mapped}) {
    const TempDir dir;
    OffloadTier tier(options_of({io}, dir, 0));
    for (int i = 0; i < 8; ++i) {
      tier.add(4 * kMegabyte);
    }
    const std::int64_t before = resident_bytes();
    for (std::size_t slot = 0; slot < 8; ++slot) {
      tier.fetch(slot).fill_(1);
      tier.put_back(slot);
    }
    EXPECT_LE(resident_bytes() - before, 16 * kMegabyte) << int(io);
  }
}

// Weights that go forward and backward, and change in the end.
TEST(OffloadTier, FollowsASchedule) {
  const TempDir dir;
  OffloadTier tier(options_of({OffloadIo::Auto}, dir, 0));
  for (int i = 0; i < 3; ++i) {
    tier.add(kMegabyte);
  }
  tier.set_schedule(
      {{{0, false}}, {{1, false}}, {{2, false}}, {{2}}, {{1}}, {{0}}, {}});
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t slot : {0, 1, 2}) {
      EXPECT_EQ(tier.fetch(slot)[7].item<int>(), round);
      tier.put_back(slot, false);
    }
    for (const std::size_t slot : {2, 1, 0}) {
      tier.fetch(slot).fill_(round + 1);
      tier.put_back(slot);
    }
  }
  // New ones are zeros, which are written as they leave; the last layer does
  // not in between. What is wanted while it leaves need not be read: the first
  // layer between rounds, and at first the second one.
  EXPECT_EQ(tier.stats().written, (2 + 3 + 3) * kMegabyte);
  EXPECT_EQ(tier.stats().read, (1 + 4) * kMegabyte);
}

TEST(OffloadTier, IsUsedProperly) {
  const TempDir dir;
  OffloadTier tier(options_of({OffloadIo::Auto}, dir, 0));
  EXPECT_THROW(tier.add(0), InvalidArgument);
  EXPECT_THROW(tier.fetch(0), InvalidArgument);
  const std::size_t slot = tier.add(10);
  EXPECT_THROW(tier.put_back(slot), InvalidArgument);
  tier.fetch(slot);
  EXPECT_THROW(tier.fetch(slot), InvalidArgument);
  EXPECT_THROW(tier.set_schedule({{{4}}}), InvalidArgument);
  EXPECT_THROW(OffloadTier({.offload_cpu_size = -1}), InvalidArgument);
  EXPECT_THROW(
      OffloadTier({.offload_path = "/proc/no/such/folder"}), SystemError);
}

std::size_t num_files(const std::filesystem::path& folder) {
  const auto found = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(found), end(found)));
}

TEST(OffloadTierRanks, AKilledProcessLeavesNoFile) {
  const testing::ParentTempDir dir;
  const std::filesystem::path folder = dir.path();
  EXPECT_THROW(
      testing::run_process_ranks(
          1,
          [&](World&) {
            OffloadTier tier({.offload_path = folder.string()});
            for (int i = 0; i < 3; ++i) {
              tier.fetch(tier.add(kMegabyte)).fill_(1);
              tier.put_back(static_cast<std::size_t>(i));
            }
            std::filesystem::create_directory(folder / "it_ran");
            ::raise(SIGKILL);
          }),
      RankFailed);
  EXPECT_TRUE(std::filesystem::exists(folder / "it_ran"));
  EXPECT_EQ(num_files(folder), 1u);
}

// While it lives.
class SoftLimit {
 public:
  SoftLimit(int resource, rlim_t limit) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    rlimit lower = before_;
    lower.rlim_cur = limit;
    ::setrlimit(resource_, &lower);
  }
  ~SoftLimit() { ::setrlimit(resource_, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  const int resource_;
  rlimit before_{};
};

TEST(OffloadTier, AFullDiskLosesNothing) {
  ::signal(SIGXFSZ, SIG_IGN);
  for (const OffloadIo io : {OffloadIo::Auto, OffloadIo::Threads}) {
    const TempDir dir;
    OffloadTier tier(options_of({io}, dir, 0));
    for (int i = 0; i < 3; ++i) {
      tier.add(kMegabyte);
    }
    {
      const SoftLimit limit(RLIMIT_FSIZE, 2 * kMegabyte);
      for (const std::size_t slot : {0, 1}) {
        tier.fetch(slot).fill_(int(slot) + 1);
        tier.put_back(slot);
      }
      tier.fetch(2).fill_(3);
      EXPECT_THAT(
          refusal<SystemError>([&] { tier.put_back(2); }),
          AllOf(
              HasSubstr("[offload.reserve] 1048576 bytes in"),
              HasSubstr(dir.path().string()),
              HasSubstr("bytes are free: File too large")));
    }
    for (const std::size_t slot : {0, 1, 2}) {
      EXPECT_TRUE(torch::equal(
          tier.fetch(slot),
          torch::full({kMegabyte}, int(slot) + 1, torch::kByte)));
      tier.put_back(slot);
    }
  }
}

TEST(OffloadTier, KeepsToTheSizeOfTheDisk) {
  const TempDir dir;
  for (const OffloadIo io : {OffloadIo::Auto, OffloadIo::Mapped}) {
    OffloadOptions options = options_of({io}, dir, 0);
    options.offload_disk_size = kMegabyte;
    OffloadTier tier(options);
    EXPECT_THAT(
        refusal<SystemError>([&] {
          const std::size_t slot = tier.add(2 * kMegabyte);
          tier.fetch(slot);
          tier.put_back(slot);
        }),
        HasSubstr("expected at most 1048576"));
  }
}

TEST(OffloadTier, WaitsNoLongerThanItMay) {
  for (const OffloadIo io : {OffloadIo::Auto, OffloadIo::Threads}) {
    const TempDir dir;
    OffloadOptions options = options_of({io}, dir, 0);
    options.timeout = std::chrono::milliseconds(0);
    OffloadTier tier(options);
    for (int i = 0; i < 2; ++i) {
      tier.add(64 * kMegabyte);
      tier.fetch(static_cast<std::size_t>(i));
    }
    tier.put_back(0);
    EXPECT_THROW(
        tier.put_back(1), TimeoutError); // the write before is not done
  }
}

// The file of a tier has no name but this.
int open_file_in(const std::filesystem::path& folder) {
  for (const auto& each :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(each.path(), gone);
    if (target.string().starts_with(folder.string())) {
      return ::open(each.path().c_str(), O_RDWR | O_CLOEXEC);
    }
  }
  return -1;
}

TEST(OffloadTier, ChecksumsFindChangedBytes) {
  for (const OffloadIo io : {OffloadIo::Auto, OffloadIo::Threads}) {
    const TempDir dir;
    OffloadTier tier(options_of({io, true, true, 0}, dir, 0));
    for (const std::size_t slot : {0, 1}) {
      tier.add(kMegabyte);
      tier.fetch(slot).fill_(1);
      tier.put_back(slot);
    }
    tier.fetch(1); // after slot 0 is written
    const int file = open_file_in(dir.path());
    ASSERT_GE(file, 0);
    ASSERT_EQ(::pwrite(file, "x", 1, 12345), 1);
    ::fsync(file);
    ::close(file);
    EXPECT_THAT(
        refusal<SystemError>([&] { tier.fetch(0); }),
        HasSubstr("checksums differ"));
  }
}

TEST(OffloadTier, TakesThreadsWhereThereIsNoRing) {
  const TempDir dir;
  const int next = ::dup(0); // the number that the file will have
  ::close(next);
  const SoftLimit limit(RLIMIT_NOFILE, static_cast<rlim_t>(next + 1));
  OffloadOptions options = options_of({OffloadIo::Uring}, dir, 0);
  EXPECT_THROW(OffloadTier{options}, InvalidArgument);
  options.io = OffloadIo::Auto;
  OffloadTier tier(options);
  EXPECT_EQ(tier.stats().io, OffloadIo::Threads);
  tier.add(kMegabyte);
  tier.add(kMegabyte);
  check_rounds(tier, {kMegabyte, kMegabyte}, {0, 1});
}

} // namespace
} // namespace argosy::offload
