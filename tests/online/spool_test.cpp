// A pipe becomes a folder that grows.

#include "argosy/online/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "tests/support/refusal.h"

namespace argosy::online {
namespace {

using argosy::testing::refusal;
using ::testing::HasSubstr;

struct Pipe {
  std::array<int, 2> ends{};

  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    close_writer();
    ::close(ends[0]);
  }
  void write(const std::string& text) const {
    EXPECT_EQ(
        ::write(ends[1], text.data(), text.size()),
        static_cast<ssize_t>(text.size()));
  }
  void close_writer() {
    if (ends[1] >= 0) {
      ::close(ends[1]);
      ends[1] = -1;
    }
  }
};

std::string file_of(const TempDir& folder, const char* name) {
  return read_file(folder.path() / name).value_or("(none)");
}

TEST(Spool, FilesHaveWholeLines) {
  const TempDir folder;
  Pipe pipe;
  for (const char* text : {"a\nb", "b\n", "c\nx\ne", "e"}) {
    pipe.write(text);
  }
  pipe.close_writer();
  EXPECT_EQ(
      spool_lines(pipe.ends[0], {.folder = folder.path(), .max_lines = 2}), 5);
  EXPECT_EQ(file_of(folder, "000000000001.txt"), "a\nbb\n");
  EXPECT_EQ(file_of(folder, "000000000002.txt"), "c\nx\n");
  EXPECT_EQ(file_of(folder, "000000000003.txt"), "ee\n");
  // The next one goes on behind them.
  Pipe more;
  more.write("f\n");
  more.close_writer();
  EXPECT_EQ(spool_lines(more.ends[0], {.folder = folder.path()}), 1);
  EXPECT_EQ(file_of(folder, "000000000004.txt"), "f\n");
}

TEST(Spool, AFileEndsAtItsSize) {
  const TempDir folder;
  Pipe pipe;
  pipe.write("12345\n12345\n1\n");
  pipe.close_writer();
  spool_lines(pipe.ends[0], {.folder = folder.path(), .max_bytes = 8});
  EXPECT_EQ(file_of(folder, "000000000001.txt"), "12345\n12345\n");
  EXPECT_EQ(file_of(folder, "000000000002.txt"), "1\n");
}

// The line is there although nothing follows it; what has not ended waits.
TEST(Spool, AFileEndsAtItsAge) {
  const TempDir folder;
  Pipe pipe;
  std::thread spool([&] {
    EXPECT_EQ(
        spool_lines(
            pipe.ends[0],
            {.folder = folder.path(),
             .max_age = std::chrono::milliseconds(20)}),
        2);
  });
  pipe.write("early\nhalf");
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (file_of(folder, "000000000001.txt") == "(none)" &&
         !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(file_of(folder, "000000000001.txt"), "early\n");
  pipe.write(" done\n");
  pipe.close_writer();
  spool.join();
  EXPECT_EQ(file_of(folder, "000000000002.txt"), "half done\n");
}

TEST(Spool, SilenceIsAnErrorAtTheLimit) {
  const TempDir folder;
  Pipe pipe;
  pipe.write("a\n");
  EXPECT_THAT(
      refusal<TimeoutError>([&] {
        spool_lines(
            pipe.ends[0],
            {.folder = folder.path(),
             .idle_limit = std::chrono::milliseconds(30)});
      }),
      HasSubstr("nothing has come for 30 ms, after 1 lines"));
  EXPECT_EQ(file_of(folder, "000000000001.txt"), "a\n");
  EXPECT_THAT(
      refusal([&] {
        spool_lines(pipe.ends[0], {.folder = folder.path(), .max_lines = 0});
      }),
      HasSubstr("files of 0 lines"));
}

} // namespace
} // namespace argosy::online
