#pragma once

#include <filesystem>
#include <string>

namespace argosy {

// The name of the flight record that a rank writes to ARGOSY_FLIGHT_DIR for
// `argosy trace hang`: "flight_rank_3.json".
std::string flight_record_name(int rank);

bool is_flight_record(const std::filesystem::path& path);

} // namespace argosy
