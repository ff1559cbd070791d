// Files of MultiSlot lines: several threads, commands, bad lines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data/slots/slot_files.h"
#include "tests/support/command.h"
#include "tests/support/thrown_by.h"

namespace argosy::data {
namespace {

using namespace std::chrono_literals;
using argosy::testing::run_command;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SlotFilesTest : public ::testing::Test {
 protected:
  // Files 0 to n-1; file i has i lines, with the ids i * 1000 + line.
  std::vector<std::string> write_files(int n) {
    std::vector<std::string> files;
    for (int i = 0; i < n; ++i) {
      std::string text;
      for (int line = 0; line < i; ++line) {
        text += str("1 ", i * 1000 + line, "\n");
      }
      files.push_back(write(str("part-", i), text));
    }
    return files;
  }
  std::string write(const std::string& name, const std::string& content) {
    write_file(dir_.path() / name, content);
    return (dir_.path() / name).string();
  }
  std::uint64_t id_of(const std::byte* sample) const {
    std::vector<SlotValues> values;
    RecordView(format_->layout(), sample).values(values);
    return values[0].id(0);
  }
  std::vector<std::uint64_t> ids_of(const Records& records) const {
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; i < records.size(); ++i) {
      ids.push_back(id_of(records[i]));
    }
    return ids;
  }
  Records load(
      const std::vector<std::string>& files,
      const SlotFileOptions& options = {}) {
    return load_slot_files({files, *format_, options, bad_lines_, stop_});
  }

  TempDir dir_;
  const std::shared_ptr<const SampleFormat> format_ =
      make_format({{"user"}}, MultiSlotOptions());
  BadLines bad_lines_{0};
  std::atomic<bool> stop_{false};
};

TEST_F(SlotFilesTest, AreLoadedInOrderByAnyNumberOfThreads) {
  const auto files = write_files(40);
  std::vector<std::uint64_t> expected;
  for (int i = 0; i < 40; ++i) {
    for (int line = 0; line < i; ++line) {
      expected.push_back(static_cast<std::uint64_t>(i * 1000 + line));
    }
  }
  for (const int threads : {1, 2, 3, 64}) {
    EXPECT_EQ(ids_of(load(files, {.num_threads = threads})), expected);
  }
  EXPECT_TRUE(load({}).empty());
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { load(files, {.num_threads = 0}); }),
      HasSubstr("0 threads"));
}

TEST_F(SlotFilesTest, AreHandedOverInParts) {
  const auto files = write_files(40);
  std::mutex mutex;
  std::multiset<std::uint64_t> seen;
  int parts = 0;
  const SlotFileOptions three{.num_threads = 3};
  read_slot_files(
      {files, *format_, three, bad_lines_, stop_},
      100,
      [&](std::size_t file, Records&& records) {
        const std::lock_guard lock(mutex);
        ++parts;
        for (const std::uint64_t id : ids_of(records)) {
          EXPECT_EQ(id / 1000, file);
          seen.insert(id);
        }
        return true;
      });
  EXPECT_EQ(seen.size(), 40U * 39 / 2);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
  EXPECT_GT(parts, 40);
}

TEST_F(SlotFilesTest, ReadingStopsWhenNobodyTakesMore) {
  const auto files = write_files(10);
  int parts = 0;
  read_slot_files(
      {files, *format_, SlotFileOptions(), bad_lines_, stop_},
      1,
      [&](std::size_t, Records&&) { return ++parts < 3; });
  EXPECT_EQ(parts, 3);
}

TEST_F(SlotFilesTest, GoThroughACommand) {
  const std::string raw = write("raw.csv", "a,7\nb,8\n");
  EXPECT_EQ(
      ids_of(load({raw}, {.pipe_command = "awk -F, \"{print 1, \\$2}\""})),
      (std::vector<std::uint64_t>{7, 8}));
  ASSERT_TRUE(run_command("gzip -k " + raw).status.success());
  EXPECT_EQ(
      ids_of(load({raw + ".gz"}, {.pipe_command = "sed \"s/.*,/1 /\""})),
      (std::vector<std::uint64_t>{7, 8}));
}

TEST_F(SlotFilesTest, BadLinesAreCountedAndLimited) {
  const std::string file = write("lines", "1 1\n1 x\n1 2\n2 3\n1 4");
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { load({file}); }),
      AllOf(
          HasSubstr(file + ", line 2, column 3: slot \"user\""),
          HasSubstr("1 bad line in all, expected at most 0")));
  BadLines two(2);
  EXPECT_EQ(
      ids_of(load_slot_files(
          {std::vector<std::string>{file},
           *format_,
           SlotFileOptions(),
           two,
           stop_})),
      (std::vector<std::uint64_t>{1, 2, 4}));
  EXPECT_EQ(two.count(), 2);
  ASSERT_EQ(two.samples().size(), 2U);
  EXPECT_THAT(two.samples()[1], HasSubstr("line 4, column 4"));
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] {
        load_slot_files(
            {std::vector<std::string>{file},
             *format_,
             SlotFileOptions(),
             two,
             stop_});
      }),
      HasSubstr("3 bad lines in all, expected at most 2"));
  BadLines any(-1);
  load_slot_files(
      {std::vector<std::string>{file, file, file},
       *format_,
       SlotFileOptions(),
       any,
       stop_});
  EXPECT_EQ(any.count(), 6);
}

// One file of many that fails ends the reading of all.
TEST_F(SlotFilesTest, WhatFailsIsNamed) {
  auto files = write_files(30);
  files[20] = (dir_.path() / "vanished").string();
  EXPECT_THAT(
      thrown_by<SystemError>([&] { load(files, {.num_threads = 3}); }),
      HasSubstr("vanished"));
  EXPECT_THAT(
      thrown_by<SystemError>(
          [&] { load(write_files(3), {.pipe_command = "cat; exit 9"}); }),
      AllOf(HasSubstr("'cat; exit 9'"), HasSubstr("exit code 9")));
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] {
        load(
            write_files(3),
            {.num_threads = 2,
             .pipe_command = "sleep 1000",
             .read_limit = 300ms});
      }),
      HasSubstr("'sleep 1000': the command wrote nothing for 300 ms"));
}

} // namespace
} // namespace argosy::data
