// JSON lines and TensorBoard's event files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/observe/crc32c.h"
#include "argosy/observe/event_record.h"
#include "argosy/observe/json_lines.h"
#include "argosy/observe/report.h"
#include "argosy/observe/tensor_board.h"
#include "tests/support/command.h"

namespace argosy::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  auto lines = split(read_file(path).value(), '\n');
  EXPECT_EQ(lines.back(), ""); // the file ends with a line's end
  lines.pop_back();
  return lines;
}

Report some_report() {
  Report report;
  report.step = 20;
  report.total_steps = 100;
  report.loss = 1.5;
  report.samples_per_second = 64;
  report.step_seconds = 0.25;
  report.eta_seconds = 20;
  report.rank_step_seconds = {0.125, 0.25, 0.125};
  report.slowest_rank = 1;
  report.slowest_ratio = 2;
  report.values = {{"lr", 0.5}};
  return report;
}

TEST(JsonLines, HavePointsAndReports) {
  const TempDir dir;
  const auto path = dir.path() / "run" / "metrics.jsonl"; // makes the folder
  JsonLines sink(path, 3);
  sink.on_point({.name = "grad \"norm\"", .value = 0.1, .step = 7, .time = 9});
  sink.on_report(some_report());
  const auto lines = lines_of(path); // while the sink is still open
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(
      Json::parse(lines[0]),
      Json(
          {{"kind", "point"},
           {"rank", 3},
           {"time", 9.0},
           {"step", 7},
           {"name", "grad \"norm\""},
           {"value", 0.1}}));
  Json report = Json::parse(lines[1]);
  EXPECT_GT(report["time"], 1e9);
  report.erase("time");
  EXPECT_EQ(
      report,
      Json(
          {{"kind", "report"},
           {"rank", 3},
           {"step", 20},
           {"total_steps", 100},
           {"loss", 1.5},
           {"samples_per_second", 64.0},
           {"step_seconds", 0.25},
           {"slowest_ratio", 2.0},
           {"lr", 0.5},
           {"eta_seconds", 20.0},
           {"slowest_rank", 1},
           {"rank_step_seconds", {0.125, 0.25, 0.125}},
           {"finished", false}}));
}

TEST(JsonLines, StayJsonWhateverTheValues) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto value = [](double number) {
    return Json::parse(json_line(Point{.name = "x", .value = number}, 0))
        .at("value");
  };
  EXPECT_EQ(value(std::nan("")), "nan");
  EXPECT_EQ(value(infinity), "inf");
  EXPECT_EQ(value(-infinity), "-inf");
  const std::string line = json_line(Point{.name = "\xff\n"}, 0);
  EXPECT_TRUE(Json::accept(line));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(JsonLines, GoOnAfterACrash) {
  const TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  write_file(path, "{\"kind\":\"point\"}\n{\"kind\":\"po"); // torn
  JsonLines(path, 0).on_point({.name = "a"});
  JsonLines(path, 0).on_point({.name = "b"});
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[1], "{\"kind\":\"po");
  EXPECT_EQ(Json::parse(lines[2]).at("name"), "a");
  EXPECT_EQ(Json::parse(lines[3]).at("name"), "b");
}

TEST(JsonLines, OfSeveralRanksMayShareAFile) {
  const TempDir dir;
  const auto path = dir.path() / "metrics.jsonl";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      JsonLines sink(path, rank);
      for (int step = 0; step < 200; ++step) {
        sink.on_point({.name = "loss", .step = step});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::map<int, int> next;
  for (const std::string& line : lines_of(path)) {
    const Json point = Json::parse(line);
    EXPECT_EQ(point.at("step"), next[point.at("rank")]++);
  }
  EXPECT_EQ(next, (std::map<int, int>{{0, 200}, {1, 200}, {2, 200}, {3, 200}}));
}

TEST(JsonLines, SayWhichFileCannotBeMade) {
  const TempDir dir;
  write_file(dir.path() / "file", "");
  try {
    JsonLines sink(dir.path() / "file" / "metrics.jsonl", 0);
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl"));
  }
}

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// What tests/observe/read_events.py, which knows nothing of ours, makes of it.
testing::CommandResult read_events(const std::filesystem::path& path) {
  return testing::run_command(str_format(
      "/usr/bin/python3 {}/tests/observe/read_events.py {}",
      ARGOSY_SOURCE_DIR,
      path.string()));
}

TEST(TensorBoard, IsReadByAnIndependentReader) {
  const TempDir dir;
  TensorBoard sink(dir.path() / "runs" / "first");
  const double now = 1.7e9;
  sink.on_point({.name = "loss", .value = 2.5, .step = 1, .time = now});
  sink.on_point({.name = "loss", .value = -0.1, .step = 300, .time = now});
  sink.on_point({.name = "x", .value = 1, .step = -1, .time = now});
  sink.on_point(
      {.name = std::string(300, 't'),
       .value = std::nan(""),
       .step = std::int64_t{1} << 40,
       .time = now});
  sink.on_report(some_report());
  sink.on_report(some_report()); // the same step again says nothing new
  const auto result = read_events(sink.path());
  EXPECT_TRUE(result.status.success()) << result.output;
  EXPECT_THAT(
      split(result.output, '\n'),
      ElementsAre(
          "version brain.Event:2",
          "1 loss 2.5",
          "300 loss -0.10000000149011612", // as float
          "-1 x 1.0",
          "1099511627776 " + std::string(300, 't') + " nan",
          "20 loss 1.5",
          "20 samples_per_second 64.0",
          "20 step_seconds 0.25",
          "20 slowest_ratio 2.0",
          "20 lr 0.5",
          ""));
}

TEST(TensorBoard, NamesFilesAsTensorBoardDoes) {
  const TempDir dir;
  const TensorBoard first(dir.path());
  const TensorBoard second(dir.path());
  EXPECT_NE(first.path(), second.path());
  const auto parts = split(first.path().filename().string(), '.');
  const std::string name = first.path().filename().string();
  EXPECT_THAT(name, StartsWith("events.out.tfevents."));
  EXPECT_EQ(parts.at(3).size(), 10); // seconds
  EXPECT_THAT(
      name, ::testing::EndsWith(str(host_name(), ".", ::getpid(), ".0")));
}

TEST(TensorBoard, ReaderSeesDamage) {
  const TempDir dir;
  const TensorBoard sink(dir.path());
  std::string content = read_file(sink.path()).value();
  content[20] = static_cast<char>(content[20] ^ 1);
  const auto damaged = dir.path() / "damaged";
  write_file(damaged, content);
  const auto result = read_events(damaged);
  EXPECT_FALSE(result.status.success());
  EXPECT_THAT(result.output, HasSubstr("checksum"));
}

} // namespace
} // namespace argosy::observe
