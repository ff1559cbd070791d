#include "argosy/common/flight_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/warning_time.h"

namespace argosy {

namespace {

constexpr std::string_view kPrefix = "flight_rank_";
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kWaitPrefix = "flight_waits_";

} // namespace

std::string flight_record_name(int rank) {
  return str(kPrefix, rank, kSuffix);
}

bool is_flight_record(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

std::string flight_record_reason(
    const std::filesystem::path& folder, int rank) {
  try {
    const auto text = read_file(folder / flight_record_name(rank));
    const auto record =
        nlohmann::json::parse(text.value_or(""), nullptr, false);
    return record.is_object() ? record.value("reason", "") : "";
  } catch (const std::exception&) {
    return ""; // it only explains a failure that is known already
  }
}

std::string flight_wait_name(int rank) {
  return str(kWaitPrefix, rank);
}

bool has_flight_wait(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::ranges::any_of(
      std::filesystem::directory_iterator(folder, ignored),
      [](const auto& entry) {
        return entry.path().filename().string().starts_with(kWaitPrefix);
      });
}

std::chrono::milliseconds hang_warning_after(const Environment& environment) {
  return warning_time(environment, "ARGOSY_HANG_WARNING", "60");
}

} // namespace argosy
