#include "argosy/common/file.h"

#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy {
namespace {

TEST(File, ReadsBackBytes) {
  const TempDir dir;
  const std::string content("a\0b\n", 4);
  write_file(dir.path() / "x", content);
  EXPECT_EQ(read_file(dir.path() / "x"), content);
  write_file(dir.path() / "x", "");
  EXPECT_EQ(read_file(dir.path() / "x"), "");
}

TEST(File, AbsentIsNoError) {
  EXPECT_FALSE(read_file("/nowhere/at/all"));
}

TEST(File, WritingIntoNoFolderNamesThePathAndLeavesNothing) {
  const TempDir dir;
  try {
    write_file(dir.path() / "no" / "x", "content");
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("no/x"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(File, TempDirGoesWithItsContent) {
  std::filesystem::path path;
  {
    const TempDir dir;
    path = dir.path();
    write_file(path / "x", "content");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

} // namespace
} // namespace argosy
