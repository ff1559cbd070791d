#include "argosy/observe/json_lines.h"

#include <nlohmann/json.hpp>

#include <cmath>

#include "argosy/observe/clock.h"
#include "argosy/observe/report.h"

namespace argosy::observe {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isfinite(value)) {
    return value;
  }
  // JSON has no such numbers; the library would write null for all three.
  return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
}

std::string dumped(const Json& line) {
  // Names come from the user and may not be valid UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

std::string json_line(const Point& point, int rank) {
  return dumped(
      {{"kind", "point"},
       {"rank", rank},
       {"time", point.time},
       {"step", point.step},
       {"name", point.name},
       {"value", number(point.value)}});
}

std::string json_line(const Report& report, double time, int rank) {
  Json line = {
      {"kind", "report"},
      {"rank", rank},
      {"time", time},
      {"step", report.step}};
  if (report.total_steps > 0) {
    line["total_steps"] = report.total_steps;
  }
  for (const auto& [name, value] : scalars(report)) {
    line[name] = number(value);
  }
  if (report.eta_seconds) {
    line["eta_seconds"] = number(*report.eta_seconds);
  }
  if (report.rank_step_seconds.size() > 1) {
    line["slowest_rank"] = report.slowest_rank;
  }
  line["rank_step_seconds"] = report.rank_step_seconds;
  line["finished"] = report.finished;
  return dumped(line);
}

JsonLines::JsonLines(const std::filesystem::path& path, int rank)
    : file_(path), rank_(rank) {
  // A killed run may have left half a line.
  if (file_.ends_within_line()) {
    file_.append("\n");
  }
}

void JsonLines::on_point(const Point& point) {
  file_.append(json_line(point, rank_) + "\n");
}

void JsonLines::on_report(const Report& report) {
  file_.append(json_line(report, unix_seconds(), rank_) + "\n");
}

} // namespace argosy::observe
