#include "argosy/common/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/error.h"

namespace argosy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Pattern, MatchesWholeNamesOrParts) {
  const Pattern layers("layers\\.[0-9]+", "[test]");
  EXPECT_TRUE(layers.matches("layers.12"));
  EXPECT_FALSE(layers.matches("layers.12.weight"));
  EXPECT_TRUE(layers.is_found_in("gpt.layers.12.weight"));
  EXPECT_FALSE(layers.is_found_in("gpt.Layers.12"));
  const Pattern any_case("BLOCK", "[test]", Pattern::Case::Ignored);
  EXPECT_TRUE(any_case.is_found_in("TransformerBlock"));
}

TEST(Pattern, ReplacesTheFirstMatch) {
  const Pattern digits("([0-9])\\.([0-9])", "[test]");
  EXPECT_EQ(digits.num_groups(), 2u);
  EXPECT_EQ(digits.replace_first("a.1.2.3.4", "$2-$1"), "a.2-1.3.4");
  EXPECT_EQ(digits.replace_first("none", "$2-$1"), "none");
}

TEST(Pattern, RefusesWhatIsNoExpression) {
  try {
    Pattern("(block", "[module.op] file, line 3:");
    FAIL() << "was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(
        error.what(),
        AllOf(
            StartsWith("[module.op] file, line 3: \"(block\""),
            HasSubstr("is not a regular expression")));
  }
}

} // namespace
} // namespace argosy
