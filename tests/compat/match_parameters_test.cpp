// Names of a net and of a checkpoint, paired.

#include "argosy/compat/match_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace argosy::compat {
namespace {

using Names = std::map<std::string, std::string>;

TEST(MatchParameters, EqualNamesFirst) {
  EXPECT_EQ(
      match_parameters({"a", "b"}, {"b", "c"}, true),
      (ParameterMatches{Names{{"b", "b"}}, {{"a"}, {"c"}}}));
}

TEST(MatchParameters, ThenEqualEnds) {
  EXPECT_EQ(
      match_parameters(
          {"net.fc.weight", "net.bias"}, {"fc.weight", "x.net.bias"}, false),
      (ParameterMatches{
          Names{{"net.fc.weight", "fc.weight"}, {"net.bias", "x.net.bias"}},
          {}}));
  EXPECT_EQ(
      match_parameters({"net.fc.weight"}, {"fc.weight"}, true),
      (ParameterMatches{{}, {{"net.fc.weight"}, {"fc.weight"}}}));
  // "1.weight" is no end of "11.weight".
  EXPECT_EQ(
      match_parameters({"11.weight"}, {"1.weight"}, false),
      (ParameterMatches{{}, {{"11.weight"}, {"1.weight"}}}));
}

TEST(MatchParameters, NothingIsGuessed) {
  EXPECT_EQ(
      match_parameters({"a.weight", "b.weight"}, {"weight"}, false),
      (ParameterMatches{{}, {{"a.weight", "b.weight"}, {"weight"}}}));
  EXPECT_EQ(
      match_parameters({"weight"}, {"a.weight", "b.weight"}, false),
      (ParameterMatches{{}, {{"weight"}, {"a.weight", "b.weight"}}}));
}

} // namespace
} // namespace argosy::compat
