// What local folders alone can show: full disks, dead processes, O_DIRECT.
#include "argosy/fs/local.h"

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "argosy/common/file.h"
#include "argosy/fs/partial.h"
#include "argosy/fs/transfer.h"
#include "tests/fs/support.h"
#include "tests/support/refusal.h"

namespace {

// What was synced since the test began to look, by path.
std::vector<std::string>* synced = nullptr;

} // namespace

// In place of libc's, for the library too, which is linked statically.
extern "C" int fsync(int fd) {
  if (synced != nullptr) {
    synced->push_back(
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd))
            .string());
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace argosy::fs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing::bytes_of;
using testing::soon;

class Local : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }
  void put(const std::string& name, std::string_view text) {
    write_text({std::make_shared<LocalFileSystem>(), path(name)}, text, soon());
  }
  std::string get(const std::string& name) {
    return read_file(path(name)).value_or("absent");
  }
  int num_files() {
    using Iterator = std::filesystem::recursive_directory_iterator;
    return static_cast<int>(
        std::distance(Iterator(folder_.path()), Iterator()));
  }

  TempDir folder_;
  LocalFileSystem fs_;
};

// Runs `body` in a child process, which must end with 0. The tests of this file
// start no thread that a fork would lose.
void in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// First what the file holds, while it has another name, then the folder that
// knows its name: after a power cut there is the old file or the new one.
TEST_F(Local, ACommitIsOnTheDisk) {
  std::vector<std::string> paths;
  const auto writer = fs_.open_write(path("file"), {}, soon());
  writer->write(bytes_of("text"), soon());
  synced = &paths;
  writer->commit(soon());
  synced = nullptr;
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_THAT(paths[0], ::testing::StartsWith(path("")));
  EXPECT_NE(paths[0], path("file")); // its name before the rename
  EXPECT_EQ(paths[1], folder_.path());
}

TEST_F(Local, WritesInAnyOrderAndFromSeveralThreads) {
  const auto writer = fs_.open_write(path("file"), {}, soon());
  ASSERT_TRUE(writer->can_write_at());
  {
    std::jthread second(
        [&] { writer->write_at(5, bytes_of("world"), soon()); });
    writer->write_at(0, bytes_of("hello"), soon());
  }
  writer->write_at(12, bytes_of("!"), soon());
  writer->commit(soon());
  EXPECT_EQ(get("file"), std::string("helloworld\0\0!", 13));
}

TEST_F(Local, DirectWritesGiveTheSameBytes) {
  const std::size_t size = 3 * kDirectAlignment + 17;
  auto* memory = static_cast<char*>(
      std::aligned_alloc(kDirectAlignment, 4 * kDirectAlignment));
  const std::unique_ptr<char, decltype(&std::free)> owner(memory, &std::free);
  for (std::size_t i = 0; i < size; ++i) {
    memory[i] = static_cast<char>(i * 7 + i / 256);
  }
  const std::string text(memory, size);
  const auto writer = fs_.open_write(
      path("file"), {.expected_bytes = size + 3, .direct = true}, soon());
  EXPECT_GE(writer->descriptor(), 0);
  writer->write(bytes_of({memory, size}), soon()); // aligned, and a rest
  writer->write(bytes_of("end"), soon());          // not aligned
  writer->commit(soon());
  EXPECT_EQ(get("file"), text + "end");
}

TEST_F(Local, MapsFiles) {
  put("file", "content");
  put("empty", "");
  const auto mapping = fs_.open_read(path("file"), {}, soon())->map();
  put("file", "replaced"); // the mapping keeps the old file
  const auto bytes = mapping->bytes();
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
      "content");
  EXPECT_TRUE(fs_.open_read(path("empty"), {}, soon())->map()->bytes().empty());
}

TEST_F(Local, AReaderKeepsTheFileThatItOpened) {
  put("file", "first");
  const auto reader = fs_.open_read(path("file"), {}, soon());
  put("file", "second version");
  std::string text(5, '\0');
  reader->read_at(0, std::as_writable_bytes(std::span(text)), soon());
  EXPECT_EQ(text, "first");
}

TEST_F(Local, ATruncatedFileIsAnError) {
  put("file", "0123456789");
  const auto reader = fs_.open_read(path("file"), {}, soon());
  std::filesystem::resize_file(path("file"), 4);
  std::string text(10, '\0');
  EXPECT_THAT(
      testing::refusal<FsError>([&] {
        reader->read_at(0, std::as_writable_bytes(std::span(text)), soon());
      }),
      HasSubstr("ends at byte 4, had 10 bytes"));
}

TEST_F(Local, SweepRemovesWhatDeadProcessesLeft) {
  in_child([&] {
    const auto writer = fs_.open_write(path("dead"), {}, soon());
    writer->write(bytes_of("half"), soon());
    ::_exit(0); // no destructor
  });
  const auto alive = fs_.open_write(path("alive"), {}, soon());
  alive->write(bytes_of("all"), soon());
  EXPECT_EQ(num_files(), 2);
  EXPECT_THAT(fs_.list(folder_.path().string(), soon()), IsEmpty());
  EXPECT_EQ(
      fs_.sweep(folder_.path().string(), std::chrono::hours(1), soon()), 1);
  alive->commit(soon());
  EXPECT_EQ(get("alive"), "all");
  EXPECT_EQ(num_files(), 1);
}

TEST_F(Local, ASweepOfAnotherProcessSparesThisWriter) {
  const auto writer = fs_.open_write(path("file"), {}, soon());
  writer->write(bytes_of("text"), soon());
  // A new program, because a forked child would share the lock.
  const std::string partial =
      std::filesystem::directory_iterator(folder_.path())->path().string();
  EXPECT_NE(std::system(("flock -n '" + partial + "' true").c_str()), 0);
  writer->commit(soon());
  EXPECT_EQ(get("file"), "text");
}

TEST_F(Local, AFullDiskIsNamedAndLosesNothing) {
  in_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      throw SystemError(with_errno("this test needs a mount of its own"));
    }
    put("kept", "committed before");
    const std::string large(600'000, 'x');
    const auto writer = fs_.open_write(path("large"), {}, soon());
    writer->write(bytes_of(large), soon());
    EXPECT_THAT(
        testing::refusal<FsError>(
            [&] { writer->write(bytes_of(large), soon()); }),
        AllOf(
            HasSubstr("[fs.write] " + path("large")),
            HasSubstr("No space left on device"),
            HasSubstr("MiB free"),
            HasSubstr("free some space")));
    EXPECT_EQ(get("kept"), "committed before");
    EXPECT_THAT(
        testing::refusal<FsError>([&] {
          fs_.open_write(path("huge"), {.expected_bytes = 5'000'000}, soon());
        }),
        HasSubstr("[fs.open_write] " + path("huge")));
    EXPECT_EQ(num_files(), 2); // the failed writer lives
  });
}

TEST_F(Local, AReadOnlyFileSystemIsNamed) {
  in_child([&] {
    put("kept", "committed before");
    const char* folder = folder_.path().c_str();
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(folder, folder, nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(
            "none",
            folder,
            nullptr,
            MS_REMOUNT | MS_BIND | MS_RDONLY,
            nullptr) != 0) {
      throw SystemError(with_errno("this test needs a mount of its own"));
    }
    const auto error = testing::refusal<FsError>([&] { put("file", "x"); });
    EXPECT_THAT(error, HasSubstr("read-only: mount it for writing"));
    EXPECT_THROW(fs_.make_dirs(path("a/b"), soon()), FsError);
    EXPECT_THROW(fs_.remove(path("kept"), soon()), FsError);
    EXPECT_EQ(get("kept"), "committed before");
  });
}

TEST_F(Local, TheLimitOfFileSizesIsAnErrorAndNoSignal) {
  in_child([&] {
    put("kept", "committed before");
    const struct ::rlimit limit { 1000, 1000 };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text(1001, 'x');
    EXPECT_THAT(
        testing::refusal<FsError>([&] { put("file", text); }),
        HasSubstr("raise `ulimit -f`"));
    const auto writer = fs_.open_write(path("file"), {}, soon());
    writer->write(bytes_of(text).first(1000), soon());
    EXPECT_THROW(writer->write(bytes_of("x"), soon()), FsError);
    EXPECT_EQ(get("kept"), "committed before");
  });
  EXPECT_EQ(num_files(), 1);
}

TEST_F(Local, AVanishedFolderIsNamed) {
  fs_.make_dirs(path("folder"), soon());
  const auto writer = fs_.open_write(path("folder/file"), {}, soon());
  writer->write(bytes_of("x"), soon());
  std::filesystem::remove_all(path("folder"));
  EXPECT_THAT(
      testing::refusal<FsError>([&] { writer->commit(soon()); }),
      HasSubstr("the folder " + path("folder") + " does not exist"));
  EXPECT_THAT(
      testing::refusal<FsError>([&] { put("folder/file", "x"); }),
      HasSubstr("make_dirs()"));
}

TEST_F(Local, AFileWhereAFolderIsNeededIsNamed) {
  put("file", "x");
  EXPECT_THAT(
      testing::refusal<FsError>([&] { put("file/below/it", "x"); }),
      HasSubstr(path("file") + " is a file where a folder is needed"));
}

TEST_F(Local, LinksShareTheBytes) {
  put("a", "text");
  ASSERT_TRUE(fs_.link(path("a"), path("b"), soon()));
  EXPECT_EQ(std::filesystem::hard_link_count(path("a")), 2);
}

TEST_F(Local, NamesOfPartialFilesAreRecognisedAndFit) {
  const std::string longest(255, 'n');
  put(longest, "x");
  EXPECT_EQ(get(longest), "x");
  EXPECT_TRUE(is_partial(partial_path("/a/b")));
  EXPECT_EQ(parent_path(partial_path("/a/b")), "/a");
  EXPECT_FALSE(is_partial("/a/b"));
  EXPECT_FALSE(is_partial("x.argosy-partial"));
  EXPECT_NE(partial_path("b"), partial_path("b"));
}

TEST(FsPaths, AreJoinedAndTakenApart) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "/b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("a", ""), "a/");
  EXPECT_EQ(base_name("/a/b/"), "b");
  EXPECT_EQ(base_name("/"), "/");
  EXPECT_EQ(parent_path("/a/b"), "/a");
  EXPECT_EQ(parent_path("/a"), "/");
  EXPECT_EQ(parent_path("/"), "/");
  EXPECT_EQ(parent_path("b"), "");
}

TEST(Progress, IsToldAfterTwoSecondsAndAtTheEnd) {
  std::vector<TransferState> told;
  ProgressMeter meter(
      "url", 10, [&](const TransferState& state) { told.push_back(state); });
  const auto began = Deadline::Clock::now();
  meter.add(1);
  EXPECT_TRUE(told.empty());
  while (told.empty() && !soon().expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    meter.add(0);
  }
  EXPECT_GE(Deadline::Clock::now() - began, std::chrono::seconds(2));
  meter.add(9);
  meter.finish();
  ASSERT_EQ(told.size(), 2);
  EXPECT_EQ(told[0].bytes, 1);
  EXPECT_EQ(told[1].bytes, 10);
  EXPECT_EQ(told[1].total_bytes, 10);
}

} // namespace
} // namespace argosy::fs
