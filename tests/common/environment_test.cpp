#include "argosy/common/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "argosy/common/error.h"
#include "argosy/common/flight_file.h"

namespace argosy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

auto names(const std::string& variable, const std::string& value) {
  return Throws<InvalidArgument>(Property(
      &InvalidArgument::what, AllOf(HasSubstr(variable), HasSubstr(value))));
}

TEST(Environment, ReadsTheProcess) {
  ::setenv("ARGOSY_TEST_ONLY", "a=b", 1);
  EXPECT_EQ(Environment::of_process().find("ARGOSY_TEST_ONLY"), "a=b");
  ::unsetenv("ARGOSY_TEST_ONLY");
  EXPECT_FALSE(Environment::of_process().has("ARGOSY_TEST_ONLY"));
}

TEST(Environment, EmptyCountsAsUnset) {
  const Environment env{{"RANK", ""}};
  EXPECT_FALSE(env.has("RANK"));
  EXPECT_EQ(env.get("RANK", "7"), "7");
  EXPECT_FALSE(env.find_int("RANK", 0));
}

TEST(Environment, IntegersAreCheckedAndNamed) {
  const Environment env{
      {"GOOD", " 3 "}, {"WORD", "abc"}, {"LOW", "-1"}, {"PORT", "70000"}};
  EXPECT_EQ(env.find_int("GOOD", 0), 3);
  EXPECT_THAT([&] { env.find_int("WORD", 0); }, names("WORD", "abc"));
  EXPECT_THAT([&] { env.find_int("LOW", 0); }, names("LOW", ">= 0"));
  EXPECT_THAT(
      [&] { env.find_int("PORT", 1, 65535); }, names("PORT", "[1, 65535]"));
}

TEST(Environment, BoolsAndTimes) {
  const Environment env{
      {"YES", "True"},
      {"NO", "off"},
      {"ODD", "maybe"},
      {"TIME", "500ms"},
      {"ZERO", "0"}};
  EXPECT_EQ(env.find_bool("YES"), true);
  EXPECT_EQ(env.find_bool("NO"), false);
  EXPECT_FALSE(env.find_bool("UNSET"));
  EXPECT_THAT([&] { env.find_bool("ODD"); }, names("ODD", "maybe"));
  EXPECT_EQ(env.find_seconds("TIME"), 0.5);
  EXPECT_THAT([&] { env.find_seconds("ZERO"); }, names("ZERO", "above zero"));
}

TEST(HangWarning, IsATimeOrNothing) {
  const auto after = [](const std::string& text) {
    Environment env;
    env.set("ARGOSY_HANG_WARNING", text);
    return hang_warning_after(env);
  };
  EXPECT_EQ(hang_warning_after(Environment()), std::chrono::minutes(1));
  EXPECT_EQ(after("500ms"), std::chrono::milliseconds(500));
  EXPECT_EQ(after("0"), std::chrono::milliseconds(0)) << "never";
  EXPECT_THAT(
      [&] { after("soon"); }, names("ARGOSY_HANG_WARNING is soon", "or 0"));
}

} // namespace
} // namespace argosy
