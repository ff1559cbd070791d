#include "argosy/observe/report_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::observe {

namespace {

// Smaller differences are noise.
constexpr double kNotableRatio = 1.1;

template <typename... Args>
std::string formatted(const char* format, Args... args) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, args...);
  return text.data();
}

// Three significant digits, without an exponent: "0.12", "1.31", "83", "940".
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : (size >= 9.995 ? 1 : 2);
  std::string text = formatted("%.*f", decimals, value);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text;
}

std::string two_digits(std::int64_t value) {
  return formatted("%02lld", static_cast<long long>(value));
}

std::string step_text(const Report& report) {
  return report.total_steps > 0
      ? str("step ", report.step, "/", report.total_steps)
      : str("step ", report.step);
}

} // namespace

std::string short_number(double value) {
  struct Unit {
    double size;
    const char* letter;
  };
  constexpr double kRoundsUp = 0.9995; // so that 999.95k prints as 1M
  for (const Unit unit : {Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}}) {
    if (std::abs(value) >= unit.size * kRoundsUp) {
      return three_digits(value / unit.size) + unit.letter;
    }
  }
  return three_digits(value);
}

std::string duration_text(double seconds) {
  if (seconds >= 0.9995) {
    return three_digits(seconds) + " s";
  }
  if (seconds >= 0.9995e-3) {
    return three_digits(seconds * 1e3) + " ms";
  }
  return three_digits(seconds * 1e6) + " us";
}

std::string clock_text(double seconds) {
  constexpr double kMost = 1e9; // 30 years; infinities are clamped to it
  const auto whole = static_cast<std::int64_t>(
      seconds < kMost ? std::llround(std::max(0.0, seconds)) : kMost);
  const std::int64_t hours = whole / 3600;
  const std::string tail =
      two_digits(whole / 60 % 60) + ":" + two_digits(whole % 60);
  if (hours >= 24) {
    return str(hours / 24, "d ", two_digits(hours % 24), ":", tail);
  }
  return hours > 0 ? str(hours, ":", tail)
                   : str(whole / 60, ":", two_digits(whole % 60));
}

std::string report_text(
    const Report& report, const std::vector<std::string>& shown) {
  std::vector<std::string> parts = {step_text(report)};
  if (report.loss) {
    parts.push_back(formatted("loss %.4f", *report.loss));
  }
  if (report.samples_per_second > 0) {
    parts.push_back(short_number(report.samples_per_second) + " samples/s");
  }
  if (report.step_seconds > 0) {
    parts.push_back(duration_text(report.step_seconds) + "/step");
  }
  if (report.eta_seconds && !report.finished) {
    parts.push_back("eta " + clock_text(*report.eta_seconds));
  }
  if (report.slowest_ratio >= kNotableRatio) {
    parts.push_back(str_format(
        "slowest rank {}: {} x median",
        report.slowest_rank,
        formatted("%.2f", report.slowest_ratio)));
  }
  for (const auto& [name, value] : report.values) {
    if (std::ranges::find(shown, name) != shown.end()) {
      parts.push_back(name + formatted(" %.4g", value));
    }
  }
  return join(parts, "  ");
}

} // namespace argosy::observe
