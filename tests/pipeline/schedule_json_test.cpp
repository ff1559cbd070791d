#include "argosy/pipeline/schedule_json.h"

#include <gmock/gmock.h>

#include "tests/pipeline/each_schedule.h"

namespace argosy::pipeline {
namespace {

using ::testing::HasSubstr;

template <typename Read>
std::string refusal(Read read, const std::string& text) {
  try {
    read(text, "[test] file");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing";
}

std::string replaced(
    std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), by);
}

TEST(ScheduleJson, ReadsWhatItWrites) {
  for_each_schedule([](const Schedule& schedule) {
    EXPECT_EQ(schedule_from_json(to_json(schedule), "test"), schedule);
  });
}

TEST(ScheduleJson, SaysWhatIsWrong) {
  const std::string good = to_json(gpipe(2, 2));
  const auto with = [&](const std::string& what, const std::string& by) {
    return refusal(schedule_from_json, replaced(good, what, by));
  };
  EXPECT_THAT(refusal(schedule_from_json, "{"), HasSubstr("[test] file"));
  EXPECT_THAT(
      refusal(schedule_from_json, "[]"),
      HasSubstr("[test] file: expected an object"));
  EXPECT_THAT(with("stages", "stagse"), HasSubstr("no \"stages\""));
  EXPECT_THAT(with("\"stages\": 2", "\"stages\": 0"), HasSubstr("is 0"));
  EXPECT_THAT(with("\"stages\": 2", "\"stages\": 1e9"), HasSubstr("expected"));
  EXPECT_THAT(with("\"round\"", "\"z\""), HasSubstr("\"round\" or \"v\""));
  EXPECT_THAT(with("\"gpipe\"", "1"), HasSubstr("expected a text"));
  EXPECT_THAT(with("F0", "X0"), HasSubstr("\"X0\" is not a step"));
  EXPECT_THAT(with("F0", "F1"), HasSubstr("0 forwards"));
  EXPECT_THAT(with("F0 F1 B0", "F0 B0 F1"), HasSubstr("wait for one another"));
}

TEST(CostsJson, ReadsWhatItWrites) {
  PartCosts costs;
  costs.times = {{1, 2, 3}, {0.5, 0.25, 4}};
  costs.message = 0.1;
  costs.kept_after_input = 0.5;
  for (const auto& memory : {std::vector<double>{}, {100, 1e12}}) {
    costs.memory = memory;
    const PartCosts read = costs_from_json(to_json(costs), "test");
    EXPECT_EQ(read.times, costs.times);
    EXPECT_EQ(read.message, costs.message);
    EXPECT_EQ(read.memory, costs.memory);
    EXPECT_EQ(read.kept_after_input, costs.kept_after_input);
  }
}

TEST(CostsJson, SaysWhatIsWrong) {
  const auto of = [](const std::string& text) {
    return refusal(costs_from_json, text);
  };
  EXPECT_THAT(of("{}"), HasSubstr("[test] file: no \"parts\""));
  EXPECT_THAT(
      of(R"({"parts": [{"forward": 1, "input": 1}]})"),
      HasSubstr("part 0: no \"weight\""));
  EXPECT_THAT(
      of(R"({"parts": [{"forward": 1, "input": 1, "weight": "2"}]})"),
      HasSubstr("expected a number"));
  EXPECT_THAT(
      of(R"({"parts": [{"forward": 1, "input": 1, "weight": -2}]})"),
      HasSubstr("backward of weights -2"));
  EXPECT_THAT(
      of(R"({"parts": [{"forward": 1, "input": 1, "weight": 1, "memory": 1},
                       {"forward": 1, "input": 1, "weight": 1}]})"),
      HasSubstr("some parts have \"memory\""));
}

} // namespace
} // namespace argosy::pipeline
