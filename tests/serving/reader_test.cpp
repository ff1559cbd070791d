// A reader beside a writer: which versions it sees, whatever becomes of the
// writer and its files.

#include "argosy/serving/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "tests/serving/exports.h"
#include "tests/support/refusal.h"

namespace argosy::serving {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ReaderOptions kByHand{
    .period = std::chrono::milliseconds(0),
    .timeout = std::chrono::milliseconds(300)};

ExportName delta_name(std::uint64_t number) {
  return {number, ExportKind::Delta};
}

// Exports 1 (a base) to `last`, of which `bases` are bases too.
std::string write_chain(
    const std::filesystem::path& folder,
    std::uint64_t last,
    const std::vector<std::uint64_t>& bases = {}) {
  std::string hash;
  for (std::uint64_t number = 1; number <= last; ++number) {
    const bool is_base =
        number == 1 || std::ranges::find(bases, number) != bases.end();
    hash = is_base ? write_numbered(folder, {number}, "")
                   : write_numbered(folder, delta_name(number), hash);
  }
  return hash;
}

TEST(Snapshot, DeltasReplaceRowsOfTheBase) {
  const TempDir folder;
  const auto write = [&](const ExportInfo& info,
                         const std::map<std::uint64_t, float>& rows) {
    ExportWriter writer(folder.path(), info, soon());
    writer.begin_table("t", 1);
    for (const auto& [key, value] : rows) {
      writer.add_row(key, std::span(&value, 1));
    }
    return writer.commit();
  };
  std::string hash = write({.name = {1}}, {{1, 10}, {2, 20}, {3, 30}});
  hash = write({delta_name(2), hash}, {{2, 21}, {4, 40}});
  hash = write({delta_name(3), hash}, {{2, 22}, {5, 50}});
  const Reader reader(folder.path(), kByHand);
  const auto model = reader.snapshot();
  EXPECT_EQ(model->number(), 3U);
  EXPECT_EQ(model->hash(), hash);
  EXPECT_THAT(model->tables(), ElementsAre("t"));
  EXPECT_EQ(model->dim("t"), 1);
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 2};
  std::vector<float> rows(keys.size(), -1);
  EXPECT_EQ(model->lookup("t", keys, rows), 6U);
  EXPECT_THAT(rows, ElementsAre(10, 22, 30, 40, 50, 0, 22));
  EXPECT_EQ(*model->find("t", 4), 40);
  EXPECT_EQ(model->find("t", 6), nullptr);
  EXPECT_THAT(
      refusal([&] { model->lookup("u", keys, rows); }),
      HasSubstr("no table 'u' in 00000003.delta, expected one of: t"));
  EXPECT_THAT(
      refusal([&] { model->lookup("t", keys, std::span(rows).first(3)); }),
      HasSubstr("3 floats for 7 keys"));
}

TEST(Reader, FollowsDeltasAndBases) {
  const TempDir folder;
  std::string hash = write_chain(folder.path(), 1);
  Reader reader(folder.path(), kByHand);
  const auto first = reader.snapshot();
  EXPECT_FALSE(reader.refresh());
  hash = write_numbered(folder.path(), delta_name(2), hash);
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.snapshot()->number(), 2U);
  hash = write_numbered(folder.path(), {4}, "");
  hash = write_numbered(folder.path(), delta_name(5), hash);
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.snapshot()->number(), 5U);
  EXPECT_EQ(*reader.snapshot()->find("items", 7), 5);
  // Who holds an old version has it unchanged, also without its file.
  std::filesystem::remove(folder.path() / "00000001.base");
  EXPECT_EQ(*first->find("items", 7), 1);
  EXPECT_THAT(reader.problem(), IsEmpty());
}

TEST(Reader, SaysWhatIsMissing) {
  const TempDir folder;
  EXPECT_THAT(
      refusal<TimeoutError>(
          [&] { const Reader reader(folder.path() / "none", kByHand); }),
      HasSubstr("none: no base after 300 ms"));
  const std::string hash = write_chain(folder.path(), 3);
  std::filesystem::remove(folder.path() / "00000001.base");
  EXPECT_THAT(
      refusal<TimeoutError>(
          [&] { const Reader reader(folder.path(), kByHand); }),
      HasSubstr("deltas, but no base"));
}

TEST(Reader, StaysOnTheLastGoodVersion) {
  const TempDir folder;
  write_chain(folder.path(), 5);
  const auto hidden = folder.path() / "hidden";
  const auto path = [&](int number) {
    return folder.path() /
        file_name(delta_name(static_cast<std::uint64_t>(number)));
  };
  // Of 2 to 5, 4 is damaged and 3 is not there.
  damage(path(4), 100);
  std::filesystem::rename(path(3), hidden);
  Reader reader(folder.path(), kByHand);
  EXPECT_EQ(reader.snapshot()->number(), 2U);
  EXPECT_EQ(
      reader.problem(),
      "00000003.delta is missing, though 00000004.delta is there");
  std::filesystem::rename(hidden, path(3));
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.snapshot()->number(), 3U);
  EXPECT_THAT(reader.problem(), HasSubstr("00000004.delta: is damaged"));
  EXPECT_FALSE(reader.refresh());
  EXPECT_EQ(*reader.snapshot()->find("users", 3), 3);
  damage(path(4), 100); // mends it
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.snapshot()->number(), 5U);
  EXPECT_THAT(reader.problem(), IsEmpty());
}

TEST(Reader, ADamagedBaseLeavesThoseBeforeIt) {
  const TempDir folder;
  write_chain(folder.path(), 5, {4});
  damage(folder.path() / "00000004.base", 100);
  Reader reader(folder.path(), kByHand);
  EXPECT_EQ(reader.snapshot()->number(), 3U);
  EXPECT_THAT(reader.problem(), HasSubstr("00000004.base: is damaged"));
  damage(folder.path() / "00000004.base", 100);
  EXPECT_TRUE(reader.refresh());
  EXPECT_EQ(reader.snapshot()->number(), 5U);
}

TEST(Reader, RefusesADeltaOfAnotherChain) {
  const TempDir folder;
  const TempDir other;
  write_chain(folder.path(), 2);
  write_numbered(other.path(), {1}, "", 7);
  const ExportFile base(other.path() / "00000001.base");
  write_numbered(other.path(), delta_name(2), base.hash(), 7);
  std::filesystem::copy(
      other.path() / "00000002.delta",
      folder.path() / "00000002.delta",
      std::filesystem::copy_options::overwrite_existing);
  Reader reader(folder.path(), kByHand);
  EXPECT_EQ(reader.snapshot()->number(), 1U);
  EXPECT_THAT(
      reader.problem(),
      HasSubstr(
          "00000002.delta follows an export with the hash " + base.hash()));
}

// Threads look rows up while exports come as fast as they can be written: all
// rows of a lookup, and all of a snapshot, are of one version, and versions
// only grow.
TEST(Reader, NeverMixesVersions) {
  const TempDir folder;
  std::string hash = write_chain(folder.path(), 1);
  Reader reader(folder.path(), {.period = std::chrono::milliseconds(1)});
  constexpr std::uint64_t kLast = 60;
  std::atomic<int> num_mixed = 0;
  std::atomic<int> num_backwards = 0;
  const auto look = [&] {
    std::vector<std::uint64_t> keys(100);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = i;
    }
    std::vector<float> items(300);
    std::vector<float> users(100);
    std::uint64_t last = 0;
    while (last < kLast) {
      const auto model = reader.snapshot();
      model->lookup("items", keys, items);
      std::this_thread::yield();
      model->lookup("users", keys, users);
      const auto number = static_cast<float>(model->number());
      const auto is_other = [&](float value) { return value != number; };
      const auto blob = *model->blob("weights");
      num_mixed += std::ranges::any_of(items, is_other) ||
          std::ranges::any_of(users, is_other) ||
          std::string(
              reinterpret_cast<const char*>(blob.data()), blob.size()) !=
              std::to_string(model->number());
      num_backwards += model->number() < last;
      last = model->number();
    }
  };
  std::thread one(look);
  std::thread two(look);
  for (std::uint64_t number = 2; number <= kLast; ++number) {
    hash = number % 20 == 0
        ? write_numbered(folder.path(), {number}, "")
        : write_numbered(folder.path(), delta_name(number), hash);
  }
  one.join();
  two.join();
  EXPECT_EQ(num_mixed, 0);
  EXPECT_EQ(num_backwards, 0);
}

// A writer that is killed leaves an export that is whole, or none.
TEST(Reader, DoesNotSeeWhatAKilledWriterLeaves) {
  const TempDir folder;
  const std::string hash = write_chain(folder.path(), 1);
  Reader reader(folder.path(), kByHand);
  for (const auto& [fault, number] :
       {std::pair("serving.written:kill", 1U),
        {"serving.committed:kill", 2U}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      set_fault(fault);
      write_numbered(folder.path(), delta_name(2), hash);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << fault;
    reader.refresh();
    EXPECT_EQ(reader.snapshot()->number(), number) << fault;
    EXPECT_THAT(reader.problem(), IsEmpty());
  }
}

} // namespace
} // namespace argosy::serving
