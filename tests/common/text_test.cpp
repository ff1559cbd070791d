#include "argosy/common/text.h"

#include <gtest/gtest.h>

namespace argosy {
namespace {

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(split("a,b,,c", ',').size(), 4u);
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(join(split("a,b,,c", ','), ","), "a,b,,c");
  EXPECT_EQ(trim(" \ta b\n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(Text, ParsesOnlyWholeNumbers) {
  EXPECT_EQ(parse_int("-12"), -12);
  for (const char* bad : {"", "abc", "1x", " 1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_int(bad)) << bad;
  }
  EXPECT_EQ(parse_seconds("30"), 30);
  EXPECT_EQ(parse_seconds("500ms"), 0.5);
  EXPECT_EQ(parse_seconds("2m"), 120);
  EXPECT_EQ(parse_seconds("1h"), 3600);
  for (const char* bad : {"", "s", "3 s", "1d", "inf"}) {
    EXPECT_FALSE(parse_seconds(bad)) << bad;
  }
}

TEST(Text, FindsTheNearestName) {
  const std::vector<std::string> names = {"nnodes", "nproc", "max-restarts"};
  EXPECT_EQ(nearest("nnode", names), "nnodes");
  EXPECT_EQ(nearest("max_restart", names), "max-restarts");
  EXPECT_EQ(nearest("max", names), "max-restarts");
  EXPECT_FALSE(nearest("colour", names));
}

TEST(Text, PrintsRanksAsRanges) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({3}), "3");
  EXPECT_EQ(ranges_text({0, 1, 4, 5, 6}), "0, 1, 4-6");
}

} // namespace
} // namespace argosy
