#include "argosy/common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <utility>

#include "argosy/common/environment.h"
#include "argosy/common/rank_label.h"
#include "argosy/common/text.h"

namespace argosy::log {

namespace {

constexpr std::array<std::pair<std::string_view, Level>, 6> kLevels = {{
    {"trace", Level::Trace},
    {"debug", Level::Debug},
    {"info", Level::Info},
    {"warn", Level::Warn},
    {"error", Level::Error},
    {"off", Level::Off},
}};

Level level_from_environment() {
  const auto name = Environment::of_process().find("ARGOSY_LOG");
  return name ? parse_level(*name) : Level::Warn;
}

// Read on first use, so that a static object may log before main().
std::atomic<Level>& current_level() {
  static std::atomic<Level> level{level_from_environment()};
  return level;
}

spdlog::logger& logger() {
  // Does not use spdlog's registry, which belongs to the main program. Never
  // destroyed: threads may log while the process ends.
  static auto* const instance = [] {
    auto* const made = new spdlog::logger(
        "argosy", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("[%H:%M:%S.%e argosy%v");
    // level() has filtered already.
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::Trace:
      return spdlog::level::trace;
    case Level::Debug:
      return spdlog::level::debug;
    case Level::Info:
      return spdlog::level::info;
    case Level::Warn:
      return spdlog::level::warn;
    case Level::Error:
      return spdlog::level::err;
    case Level::Off:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

} // namespace

Level parse_level(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, level] : kLevels) {
    if (known == name) {
      return level;
    }
    names.emplace_back(known);
  }
  ARGOSY_CHECK(
      false, "[log] ARGOSY_LOG={} is not one of {}", name, join(names, ", "));
  return Level::Off;
}

Level level() {
  return current_level().load(std::memory_order_relaxed);
}

void set_level(Level level) {
  current_level().store(level, std::memory_order_relaxed);
}

void write(Level level, std::string_view text) {
  const std::string label = rank_label();
  logger().log(
      to_spdlog(level),
      str(label.empty() ? "" : " ",
          label,
          " ",
          kLevels[static_cast<std::size_t>(level)].first,
          "] ",
          text));
}

} // namespace argosy::log
