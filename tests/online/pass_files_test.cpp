#include "argosy/online/pass_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "argosy/common/file.h"

namespace argosy::online {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PassFilesTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (dir_.path() / name).string();
  }
  void write(const std::string& name) const {
    std::filesystem::create_directories((dir_.path() / name).parent_path());
    write_file(path(name), "x");
  }
  PassFiles find(const Schedule& schedule, const Progress& progress) const {
    return find_files(
        schedule,
        *next_pass(schedule, progress),
        Deadline::after(std::chrono::seconds(9)));
  }

  const TempDir dir_;
};

TEST_F(PassFilesTest, WaitsForTheMarkOfEachSplit) {
  const Schedule schedule{
      .first_day = "20261118",
      .passes_per_day = 2,
      .splits_per_pass = 2,
      .files = path("{split}/part-*"),
      .ready = path("{split}/done")};
  write("0/part-1");
  write("0/part-0");
  write("0/other");
  write("0/done");
  EXPECT_EQ(find(schedule, {"20261118"}).missing, path("1/done"));
  write("1/done"); // nothing has happened in this time
  const PassFiles found = find(schedule, {"20261118"});
  EXPECT_THAT(found.missing, IsEmpty());
  EXPECT_THAT(found.files, ElementsAre(path("0/part-0"), path("0/part-1")));
}

TEST_F(PassFilesTest, WithoutMarksAFileOfEachSplitIsEnough) {
  const Schedule schedule{
      .first_day = "20261118",
      .passes_per_day = 1,
      .splits_per_pass = 2,
      .files = path("{day}/{split}-*.gz")};
  EXPECT_EQ(find(schedule, {"20261118"}).missing, path("20261118/0-*.gz"));
  write("20261118/0-a.gz");
  EXPECT_EQ(find(schedule, {"20261118"}).missing, path("20261118/1-*.gz"));
  write("20261118/1-a.gz");
  EXPECT_EQ(find(schedule, {"20261118"}).files.size(), 2U);
}

TEST_F(PassFilesTest, OfAFolderThatGrowsTakesWhatIsNew) {
  const Schedule schedule{
      .first_day = "20261118", .files = path("in/*.txt"), .files_per_pass = 2};
  for (const char* name : {"in/3.txt", "in/1.txt", "in/2.txt"}) {
    write(name);
  }
  EXPECT_THAT(
      find(schedule, {"20261118"}).files,
      ElementsAre(path("in/1.txt"), path("in/2.txt")));
  EXPECT_THAT(
      find(schedule, {"20261118", 1, 0, "2.txt"}).files,
      ElementsAre(path("in/3.txt")));
  EXPECT_EQ(
      find(schedule, {"20261118", 1, 0, "3.txt"}).missing,
      path("in/*.txt") + " behind 3.txt");
}

TEST(FitsPattern, KnowsStarsAndQuestionMarks) {
  for (const auto& [name, pattern] :
       std::vector<std::pair<const char*, const char*>>{
           {"part-0", "part-*"},
           {"part-", "part-*"},
           {"a.b.gz", "*.gz"},
           {"aXbXb", "a*b"},
           {"abcabd", "*abd"},
           {"", "*"},
           {"ab", "?b"},
           {"ab", "**"}}) {
    EXPECT_TRUE(fits_pattern(name, pattern)) << name << ' ' << pattern;
  }
  for (const auto& [name, pattern] :
       std::vector<std::pair<const char*, const char*>>{
           {"part-0", "part"},
           {"part", "part-*"},
           {"a.gzip", "*.gz"},
           {"b", "?b"},
           {"ab", ""},
           {"aXbXc", "a*b"}}) {
    EXPECT_FALSE(fits_pattern(name, pattern)) << name << ' ' << pattern;
  }
}

} // namespace
} // namespace argosy::online
