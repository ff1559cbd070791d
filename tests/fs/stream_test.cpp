// Files as streams: plain, compressed, and through shell commands.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/fs/command_stream.h"
#include "argosy/fs/error.h"
#include "argosy/fs/stream.h"
#include "tests/support/command.h"
#include "tests/support/thrown_by.h"

namespace argosy::fs {
namespace {

using namespace std::chrono_literals;
using argosy::testing::run_command;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Clock = std::chrono::steady_clock;

std::string all_of(ByteStream& stream, std::chrono::milliseconds limit = 20s) {
  std::string result;
  std::vector<char> buffer(1000);
  while (const std::size_t size = stream.read(buffer, Deadline::after(limit))) {
    result.append(buffer.data(), size);
  }
  EXPECT_EQ(stream.read(buffer, Deadline::after(limit)), 0U); // stays so
  return result;
}

std::string content_of(const std::string& url) {
  return all_of(*open_stream(url, Deadline::after(20s)));
}

// Larger than all buffers, and not the same everywhere.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 1500000; ++i) {
    text += str("line ", i * 7919, "\n");
  }
  return text;
}

class Streams : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.path() / name, content);
    return (dir_.path() / name).string();
  }
  // Compresses a file with the system's own command.
  std::string compress(const std::string& command, const std::string& path) {
    EXPECT_TRUE(run_command(str(command, " -k ", path)).status.success());
    return path + (command == "gzip" ? ".gz" : ".zst");
  }

  TempDir dir_;
};

TEST_F(Streams, GiveTheBytesOfAFile) {
  EXPECT_EQ(content_of(write("plain", long_text())), long_text());
  EXPECT_EQ(content_of(write("empty", "")), "");
  EXPECT_THAT(
      thrown_by<FsError>([&] { content_of(dir_.path() / "none"); }),
      HasSubstr("none"));
}

class Compressed : public Streams,
                   public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    Fs, Compressed, ::testing::Values("gzip", "zstd"), [](const auto& test) {
      return test.param;
    });

TEST_P(Compressed, FilesAreDecompressedByTheirSuffix) {
  EXPECT_EQ(
      content_of(compress(GetParam(), write("long", long_text()))),
      long_text());
  EXPECT_EQ(content_of(compress(GetParam(), write("empty", ""))), "");
}

TEST_P(Compressed, FilesMayHaveSeveralMembers) {
  const std::string one = compress(GetParam(), write("one", "first\n"));
  const std::string two = compress(GetParam(), write("two", "second\n"));
  const std::string suffix = one.substr(one.rfind('.'));
  const std::string both =
      write("both" + suffix, *read_file(one) + *read_file(two));
  EXPECT_EQ(content_of(both), "first\nsecond\n");
}

TEST_P(Compressed, FilesThatAreCutOrDamagedAreNamed) {
  const std::string good = compress(GetParam(), write("long", long_text()));
  const std::string suffix = good.substr(good.rfind('.'));
  const std::string bytes = *read_file(good);
  const std::string cut =
      write("cut" + suffix, bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(
      thrown_by<FsError>([&] { content_of(cut); }),
      AllOf(
          HasSubstr(cut),
          HasSubstr(str("ends in the middle at byte ", bytes.size() / 2))));
  std::string other = bytes;
  for (std::size_t i = other.size() / 2; i < other.size() / 2 + 64; ++i) {
    other[i] = static_cast<char>(~other[i]);
  }
  const std::string damaged = write("damaged" + suffix, other);
  EXPECT_THAT(
      thrown_by<FsError>([&] { content_of(damaged); }), HasSubstr(damaged));
}

// ---- Commands ---------------------------------------------------------------

class Commands : public Streams {
 protected:
  std::unique_ptr<ByteStream> through(
      const std::string& command, const std::string& path) {
    return make_command_stream(
        command, open_stream(path, Deadline::after(20s)), 20s);
  }
};

TEST_F(Commands, GetAFileAndGiveTheirOutput) {
  const std::string path = write("numbers", "3\n1\n2\n");
  EXPECT_EQ(all_of(*through("sort | tr 1 x", path)), "x\n2\n3\n");
  EXPECT_EQ(all_of(*through("cat", write("long", long_text()))), long_text());
}

// Fed by a thread: what is decompressed here has no descriptor.
TEST_F(Commands, GetWhatWasDecompressed) {
  const std::string path = compress("gzip", write("long", long_text()));
  EXPECT_EQ(all_of(*through("cat", path)), long_text());
  // It reads only the beginning, and that is no failure.
  EXPECT_EQ(all_of(*through("head -n 1", path)), "line 0\n");
}

TEST_F(Commands, ThatFailAreNamed) {
  const std::string path = write("numbers", "3\n1\n2\n");
  EXPECT_THAT(
      thrown_by<SystemError>(
          [&] { all_of(*through("head -n 1; exit 3", path)); }),
      AllOf(
          HasSubstr(path),
          HasSubstr("'head -n 1; exit 3'"),
          HasSubstr("exit code 3")));
}

TEST_F(Commands, WhoseInputIsBrokenSaySo) {
  const std::string good = compress("gzip", write("long", long_text()));
  const std::string bytes = *read_file(good);
  const std::string cut = write("cut.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(
      thrown_by<FsError>([&] { all_of(*through("cat", cut)); }),
      HasSubstr("ends in the middle"));
}

TEST_F(Commands, ThatHangAreNamedAndKilled) {
  const std::string path = write("numbers", "3\n1\n2\n");
  const auto began = Clock::now();
  const std::string pids = (dir_.path() / "pids").string();
  auto stream = through(str("echo $$ > ", pids, "; sleep 1000 & wait"), path);
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] { all_of(*stream, 500ms); }),
      AllOf(HasSubstr(path), HasSubstr("wrote nothing for 500 ms")));
  stream.reset();
  EXPECT_LT(Clock::now() - began, 20s);
  // Neither the shell nor what it started is left.
  const auto group = parse_int(trim(*read_file(pids)));
  ASSERT_TRUE(group);
  for (int i = 0; i < 200 && ::kill(-static_cast<int>(*group), 0) == 0; ++i) {
    std::this_thread::sleep_for(50ms); // init reaps the orphan
  }
  EXPECT_NE(::kill(-static_cast<int>(*group), 0), 0);
}

} // namespace
} // namespace argosy::fs
