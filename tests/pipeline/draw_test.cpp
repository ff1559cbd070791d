#include "argosy/pipeline/schedule_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "argosy/common/text.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(
    const Schedule& schedule,
    const PartTimes& times = {},
    const DrawOptions& options = {}) {
  return draw_text(
      schedule, simulate(schedule, equal_costs(schedule, times)), options);
}

std::string svg_of(const Schedule& schedule) {
  return draw_svg(schedule, simulate(schedule, equal_costs(schedule)));
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

TEST(DrawText, ShowsEachStageOverTime) {
  EXPECT_EQ(
      text_of(one_forward_one_backward(2, 3)),
      "1f1b: 2 stages, 3 microbatches\n"
      "makespan 12, bubble 25.0 %, peak activations by stage 2 1\n"
      "stage 0 F0 F1 .  .  B0--- F2 B1--- .  B2---\n"
      "stage 1 .  F0 B0--- F1 B1--- F2 B2---\n"
      "F forward, B backward, I of inputs, W of weights; a column is 1\n");
}

TEST(DrawText, ShowsChunks) {
  const std::string two = text_of(zero_bubble_v(1, 1));
  EXPECT_THAT(two, HasSubstr("1 microbatches, 2 chunks in a V\n"));
  EXPECT_THAT(two, HasSubstr("stage 0 F0 f0 i0 w0 I0 W0\n"));
  const std::string three = text_of(gpipe(1, 1, 3));
  EXPECT_THAT(three, HasSubstr("3 chunks in rounds"));
  EXPECT_THAT(
      three, HasSubstr("F0   F0.1 F0.2 B0.2----- B0.1----- B0-------\n"));
}

TEST(DrawText, LinesUpNumbersOfTwoDigits) {
  const auto lines = split(text_of(gpipe(11, 11), {1, 0.5, 0.5}), '\n');
  EXPECT_THAT(lines[2], ::testing::StartsWith("stage 0  F0  F1  F2 "));
  EXPECT_THAT(lines[12], ::testing::StartsWith("stage 10 .   .   .  "));
  EXPECT_THAT(lines[12], HasSubstr("F9  F10 B0  B1 "));
}

TEST(DrawText, KeepsToTheColumnsItIsGiven) {
  const auto lines =
      split(text_of(gpipe(2, 9), {0.001, 10, 10}, {.most_columns = 50}), '\n');
  EXPECT_LT(lines[2].size(), 8u + 3 * 51);
  EXPECT_THAT(lines[3], HasSubstr("B8"));
}

TEST(DrawText, ColorsWhenAsked) {
  EXPECT_THAT(text_of(gpipe(1, 1)), Not(HasSubstr("\033[")));
  EXPECT_THAT(
      text_of(gpipe(1, 1), {}, {.color = true}), HasSubstr("mF0\033[0m "));
}

TEST(DrawSvg, HasABoxForEachStep) {
  const std::string svg = svg_of(zero_bubble_v(2, 3));
  EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  EXPECT_EQ(count(svg, "<rect"), 2u * 2 * 3 * 3 + 4); // and the legend
  EXPECT_EQ(count(svg, "<title>"), 2u * 2 * 3 * 3);
  EXPECT_THAT(svg, HasSubstr("<title>F0.1 at stage 1: 2 to 3</title>"));
  EXPECT_THAT(svg, HasSubstr("bubble 5.3 %"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST(DrawSvg, EscapesNames) {
  Schedule schedule = gpipe(1, 1);
  schedule.name = "<a&b>";
  EXPECT_THAT(svg_of(schedule), HasSubstr("&lt;a&amp;b&gt;: 1 stages"));
}

} // namespace
} // namespace argosy::pipeline
