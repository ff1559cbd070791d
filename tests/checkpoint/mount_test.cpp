// File systems that fill up, become read-only or vanish while a job saves to
// them. Needs the right to mount.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <torch/torch.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <thread>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/init.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

namespace stdfs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Two folders in a thread with mounts of its own, which nobody else sees and
// which end with it: a small file system, and a mount of it that comes and
// goes.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    stdfs::create_directories(disk());
    stdfs::create_directories(path());
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(
            "none", disk().c_str(), "tmpfs", 0, (str("size=", size)).c_str()) !=
            0) {
      problem_ = std::strerror(errno);
      return;
    }
    mount();
  }
  ~SmallDisk() {
    ::umount2(path().c_str(), MNT_DETACH);
    ::umount2(disk().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::string& problem() const { return problem_; }
  stdfs::path path() const { return parent_.path() / "run"; }

  void mount() const {
    ASSERT_EQ(
        ::mount(disk().c_str(), path().c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  void unmount() const { ASSERT_EQ(::umount2(path().c_str(), MNT_DETACH), 0); }
  // Over the mount that is there; unmount() brings that back.
  void mount_read_only() const {
    mount();
    ASSERT_EQ(
        ::mount(
            nullptr,
            path().c_str(),
            nullptr,
            MS_REMOUNT | MS_BIND | MS_RDONLY,
            nullptr),
        0);
  }

 private:
  stdfs::path disk() const { return parent_.path() / "disk"; }

  const TempDir parent_;
  std::string problem_; // why there is none
};

// Why it could not; empty if `body` has run. Threads that it starts see its
// mounts.
std::string with_small_disk(
    const char* size, const std::function<void(const SmallDisk&)>& body) {
  std::string problem;
  std::exception_ptr error;
  std::thread thread([&] {
    const SmallDisk disk(size);
    problem = disk.problem();
    try {
      if (problem.empty()) {
        body(disk);
      }
    } catch (...) {
      error = std::current_exception();
    }
  });
  thread.join();
  if (error != nullptr) {
    std::rethrow_exception(error);
  }
  return problem;
}

#define ARGOSY_WITH_SMALL_DISK(size, body)                                  \
  if (const std::string problem = with_small_disk(size, body);              \
      !problem.empty()) {                                                   \
    GTEST_SKIP() << "this process may not mount file systems: " << problem; \
  }

// 1 MiB, whose values are the step.
struct Net {
  torch::nn::Linear linear{512, 512};
  State state{linear};

  void set(double step) {
    const torch::NoGradGuard no_grad;
    linear->weight.fill_(step);
  }
  double value() const { return linear->weight[0][0].item<double>(); }
};

std::optional<std::int64_t> newest_in(const stdfs::path& folder) {
  const auto found = Folder(fs::open(folder.string()))
                         .newest(Deadline::after(std::chrono::seconds(9)));
  return found ? std::optional(found->step) : std::nullopt;
}

void save_until_full(const SmallDisk& disk, bool async) {
  Net net;
  Checkpointer saver(disk.path(), {.async = async});
  const auto save = [&](int step) {
    net.set(step);
    saver.save(net.state, step);
    saver.wait();
  };
  save(1);
  save(2);
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { save(3); }),
      AllOf(
          HasSubstr((disk.path() / "step-00000003" / "rank-0000").string()),
          HasSubstr("No space left"),
          HasSubstr("free some space")));
  barrier();
  EXPECT_FALSE(stdfs::exists(disk.path() / "step-00000003"));
  net.set(3); // training goes on
  EXPECT_EQ(load(disk.path(), net.state).step, 2);
  EXPECT_EQ(net.value(), 2);
  barrier();
  if (get_rank() == 0) {
    Folder(fs::open(disk.path().string()))
        .remove("step-00000001", Deadline::after(std::chrono::seconds(9)));
  }
  barrier();
  save(4);
  net.set(0);
  EXPECT_EQ(load(disk.path(), net.state).step, 4);
  EXPECT_EQ(net.value(), 4);
}

TEST(Mount, ThatIsFullKeepsTheLastCheckpoint) {
  for (const bool async : {false, true}) {
    ARGOSY_WITH_SMALL_DISK("2500k", [async](const SmallDisk& disk) {
      testing::run_ranks(2, [&](World&) { save_until_full(disk, async); });
    });
  }
}

TEST(Mount, ThatBecomesReadOnlyIsNamedAndReadable) {
  ARGOSY_WITH_SMALL_DISK("9m", [](const SmallDisk& disk) {
    Net net;
    Checkpointer saver(disk.path());
    net.set(1);
    saver.save(net.state, 1);
    disk.mount_read_only();
    net.set(2);
    const auto is_read_only = AllOf(
        HasSubstr(disk.path().string()),
        HasSubstr("Read-only file system"),
        HasSubstr("mount it for writing"));
    EXPECT_THAT(
        testing::refusal<CheckpointError>([&] { saver.save(net.state, 2); }),
        is_read_only);
    EXPECT_THAT(
        testing::refusal<CheckpointError>(
            [&] { Checkpointer other(disk.path()); }),
        is_read_only);
    EXPECT_EQ(load(disk.path(), net.state).step, 1);
    EXPECT_EQ(net.value(), 1);
    disk.unmount();
    saver.save(net.state, 2);
    EXPECT_EQ(newest_in(disk.path()), 2);
  });
}

// What is written there meanwhile must not go to the disk below.
TEST(Mount, ThatVanishesIsNamedAndMayComeBack) {
  ARGOSY_WITH_SMALL_DISK("9m", [](const SmallDisk& disk) {
    Net net;
    Checkpointer saver(disk.path(), {.async = true});
    net.set(1);
    saver.save(net.state, 1);
    saver.wait();
    disk.unmount();
    EXPECT_THAT(
        testing::refusal<CheckpointError>([&] {
          saver.save(net.state, 2);
          saver.wait();
        }),
        AllOf(
            HasSubstr(disk.path().string()),
            HasSubstr("was unmounted"),
            HasSubstr("Mount it again")));
    EXPECT_TRUE(stdfs::is_empty(disk.path()));
    EXPECT_THAT(
        testing::refusal<CheckpointError>(
            [&] { load(disk.path(), net.state); }),
        HasSubstr("has no checkpoint"));
    disk.mount();
    EXPECT_EQ(newest_in(disk.path()), 1);
    net.set(3);
    saver.save(net.state, 3);
    saver.wait();
    net.set(0);
    EXPECT_EQ(load(disk.path(), net.state).step, 3);
    EXPECT_EQ(net.value(), 3);
  });
}

// The folder is the same if its lock has this job's name, whatever the numbers
// of its files.
TEST(Mount, ThatHasOtherFileNumbersIsTheSame) {
  const TempDir parent;
  Net net;
  Checkpointer saver(parent.path() / "run");
  saver.save(net.state, 1);
  stdfs::copy(
      parent.path() / "run",
      parent.path() / "copy",
      stdfs::copy_options::recursive);
  stdfs::rename(parent.path() / "run", parent.path() / "old");
  EXPECT_THAT(
      testing::refusal<CheckpointError>([&] { saver.save(net.state, 2); }),
      HasSubstr("no longer the folder"));
  stdfs::rename(parent.path() / "copy", parent.path() / "run");
  saver.save(net.state, 2);
  EXPECT_EQ(newest_in(parent.path() / "run"), 2);
  EXPECT_EQ(newest_in(parent.path() / "old"), 1);
  EXPECT_THAT(
      testing::refusal<Error>([&] { Checkpointer(parent.path() / "run"); }),
      HasSubstr("another job saves to"));
}

} // namespace
} // namespace argosy::checkpoint
