// What must be on the disk before something else is: seen through the calls of
// the system that this program takes the place of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"

namespace {

struct Call {
  bool is_sync = false; // else a rename
  ino_t inode = 0;
  std::string to; // of a rename
};

std::mutex calls_mutex;
std::vector<Call> calls;

void note_call(Call call) {
  const std::lock_guard lock(calls_mutex);
  calls.push_back(std::move(call));
}

ino_t inode_of(const std::string& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

} // namespace

extern "C" int fsync(int fd) {
  struct ::stat status {};
  ::fstat(fd, &status);
  const int result = static_cast<int>(::syscall(SYS_fsync, fd));
  note_call({.is_sync = true, .inode = status.st_ino, .to = {}});
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  const ino_t inode = inode_of(from);
  const int result = static_cast<int>(::syscall(SYS_rename, from, to));
  note_call({.is_sync = false, .inode = inode, .to = to});
  return result;
}

namespace argosy::checkpoint {
namespace {

namespace stdfs = std::filesystem;

// Indices in `calls`; -1: none.
int rename_to(const std::string& path) {
  const auto found = std::ranges::find_if(
      calls, [&](const Call& call) { return call.to == path; });
  return found == calls.end() ? -1 : static_cast<int>(found - calls.begin());
}

bool is_synced_between(ino_t inode, int begin, int end) {
  return std::any_of(
      calls.begin() + begin, calls.begin() + end, [&](const Call& call) {
        return call.is_sync && call.inode == inode;
      });
}

std::vector<std::string> files_in(const stdfs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : stdfs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") {
      files.push_back(entry.path().string());
    }
  }
  return files;
}

// A file is synced before it has its name, and its folder before `end`.
void expect_durable(const std::string& path, int end) {
  const int renamed = rename_to(path);
  ASSERT_GE(renamed, 0) << path;
  EXPECT_LT(renamed, end) << path;
  EXPECT_TRUE(is_synced_between(inode_of(path), 0, renamed)) << path;
  EXPECT_TRUE(is_synced_between(
      inode_of(stdfs::path(path).parent_path()), renamed, end))
      << path;
}

void save_on_two_ranks(const std::string& folder, std::int64_t step) {
  calls.clear();
  testing::run_ranks(2, [&](World&) {
    torch::nn::Linear net(64, 32);
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(1);
      net->bias.fill_(1);
    }
    net->weight.set_requires_grad(false); // goes to a file of its own
    State state{net};
    state.without_random();
    save(folder, state, step);
  });
}

TEST(Sync, OfAllFilesComesBeforeTheManifest) {
  const TempDir folder;
  save_on_two_ranks(folder.path(), 1);
  const stdfs::path step = folder.path() / "step-00000001";
  const int committed = rename_to(step / "manifest.json");
  ASSERT_GE(committed, 0);
  const auto files = files_in(step);
  EXPECT_GE(files.size(), 2u);
  for (const std::string& file : files) {
    expect_durable(file, committed);
  }
  const int latest = rename_to(folder.path() / "latest");
  ASSERT_GE(latest, 0);
  expect_durable(step / "manifest.json", latest);
  expect_durable(folder.path() / "latest", static_cast<int>(calls.size()));
  // The folder's own name too.
  EXPECT_TRUE(is_synced_between(inode_of(folder.path()), 0, committed));
}

} // namespace
} // namespace argosy::checkpoint
