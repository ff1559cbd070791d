#include "argosy/common/flight_file.h"

#include "argosy/common/error.h"

namespace argosy {

namespace {

constexpr std::string_view kPrefix = "flight_rank_";
constexpr std::string_view kSuffix = ".json";

} // namespace

std::string flight_record_name(int rank) {
  return str(kPrefix, rank, kSuffix);
}

bool is_flight_record(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

} // namespace argosy
