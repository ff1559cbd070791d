#include "argosy/online/schedule.h"

#include <chrono>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::online {

namespace {

constexpr int kMinutesOfDay = 24 * 60;

std::chrono::sys_days parse_day(const std::string& text) {
  const auto number = text.size() == 8 ? parse_int(text) : std::nullopt;
  const long long digits = number.value_or(0);
  const std::chrono::year_month_day date{
      std::chrono::year(static_cast<int>(digits / 10000)),
      std::chrono::month(static_cast<unsigned>(digits / 100 % 100)),
      std::chrono::day(static_cast<unsigned>(digits % 100))};
  ARGOSY_CHECK(
      digits > 0 && date.ok(),
      "[online.schedule] day '{}', expected one as 20261118",
      text);
  return date;
}

std::string padded(int number, std::size_t digits) {
  std::string text = std::to_string(number);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text
                              : text;
}

std::string day_text(std::chrono::sys_days day) {
  const std::chrono::year_month_day date(day);
  return padded(static_cast<int>(date.year()), 4) +
      padded(static_cast<int>(static_cast<unsigned>(date.month())), 2) +
      padded(static_cast<int>(static_cast<unsigned>(date.day())), 2);
}

void replace_all(
    std::string& text, std::string_view field, const std::string& by) {
  for (std::size_t at = text.find(field); at != std::string::npos;
       at = text.find(field, at + by.size())) {
    text.replace(at, field.size(), by);
  }
}

int splits_per_day(const Schedule& schedule) {
  return schedule.passes_per_day * schedule.splits_per_pass;
}

std::string of_split(
    std::string pattern,
    const Schedule& schedule,
    const PassPlan& pass,
    int split) {
  const int minute = split * kMinutesOfDay / splits_per_day(schedule);
  replace_all(pattern, "{day}", pass.day);
  replace_all(pattern, "{pass}", std::to_string(pass.pass));
  replace_all(pattern, "{split}", std::to_string(split));
  replace_all(pattern, "{hour}", padded(minute / 60, 2));
  replace_all(pattern, "{minute}", padded(minute % 60, 2));
  return pattern;
}

void add_files(const Schedule& schedule, PassPlan& plan) {
  if (schedule.files_per_pass > 0) {
    plan.files.push_back(schedule.files);
    return;
  }
  const int first = (plan.pass - 1) * schedule.splits_per_pass;
  for (int i = first; i < first + schedule.splits_per_pass; ++i) {
    plan.files.push_back(of_split(schedule.files, schedule, plan, i));
    if (!schedule.ready.empty()) {
      plan.ready.push_back(of_split(schedule.ready, schedule, plan, i));
    }
  }
}

// Deltas need a base before them, so the first export is one.
void add_saves(
    const Schedule& schedule, const Progress& before, PassPlan& plan) {
  const std::string folder = plan.after.day + "/";
  const std::string pass = std::to_string(plan.pass);
  const bool saves =
      plan.ends_day || plan.pass % schedule.checkpoint_every == 0;
  if (saves) {
    plan.checkpoint = folder + std::to_string(plan.after.pass);
  }
  const int every = schedule.export_every;
  if (every == 0 || (!plan.ends_day && plan.pass % every != 0)) {
    return;
  }
  PlannedExport& made = plan.exported.emplace();
  made.number = before.num_exports + 1;
  made.is_base = plan.ends_day || made.number == 1;
  made.path = folder +
      (plan.ends_day      ? "base"
           : made.is_base ? "base-" + pass
                          : "delta-" + pass);
  plan.after.num_exports = made.number;
}

} // namespace

std::string next_day(const std::string& day) {
  return day_text(parse_day(day) + std::chrono::days(1));
}

void check(const Schedule& schedule) {
  parse_day(schedule.first_day);
  ARGOSY_CHECK(
      schedule.num_days >= 0 && schedule.passes_per_day > 0 &&
          schedule.splits_per_pass > 0 && schedule.files_per_pass >= 0 &&
          schedule.checkpoint_every > 0 && schedule.export_every >= 0,
      "[online.schedule] {} days of {} passes of {} splits, {} files a pass, a "
      "checkpoint every {} passes, an export every {}, expected none below 0, "
      "and passes, splits and checkpoints above",
      schedule.num_days,
      schedule.passes_per_day,
      schedule.splits_per_pass,
      schedule.files_per_pass,
      schedule.checkpoint_every,
      schedule.export_every);
  ARGOSY_CHECK(
      !schedule.files.empty(), "[online.schedule] no files, expected a URL");
  ARGOSY_CHECK(
      schedule.export_every % schedule.checkpoint_every == 0,
      "[online.schedule] an export every {} passes and a checkpoint every {}, "
      "expected a multiple: what is exported must not be trained anew",
      schedule.export_every,
      schedule.checkpoint_every);
  const std::string patterns = schedule.files + schedule.ready;
  const bool grows = schedule.files_per_pass > 0;
  ARGOSY_CHECK(
      !grows ||
          (schedule.ready.empty() && patterns.find('{') == std::string::npos),
      "[online.schedule] files '{}' and ready '{}' of a folder that grows, "
      "expected no field and no ready",
      schedule.files,
      schedule.ready);
  ARGOSY_CHECK(
      grows || patterns.find("{minute}") == std::string::npos ||
          kMinutesOfDay % splits_per_day(schedule) == 0,
      "[online.schedule] {} splits of a day, expected each to begin at a whole "
      "minute",
      splits_per_day(schedule));
}

Progress first_progress(const Schedule& schedule) {
  check(schedule);
  return {.day = schedule.first_day};
}

std::optional<PassPlan> next_pass(
    const Schedule& schedule, const Progress& progress) {
  const auto days = parse_day(progress.day) - parse_day(schedule.first_day);
  ARGOSY_CHECK(
      days.count() >= 0 && progress.pass >= 0 &&
          progress.pass < schedule.passes_per_day,
      "[online.schedule] pass {} of {} is done, expected one of {} passes from "
      "{} on",
      progress.pass,
      progress.day,
      schedule.passes_per_day,
      schedule.first_day);
  if (schedule.num_days > 0 && days.count() >= schedule.num_days) {
    return std::nullopt;
  }
  PassPlan plan{.day = progress.day, .pass = progress.pass + 1};
  plan.ends_day = plan.pass == schedule.passes_per_day;
  plan.after = progress;
  plan.after.day = plan.ends_day ? next_day(plan.day) : plan.day;
  plan.after.pass = plan.ends_day ? 0 : plan.pass;
  add_files(schedule, plan);
  add_saves(schedule, progress, plan);
  return plan;
}

} // namespace argosy::online
