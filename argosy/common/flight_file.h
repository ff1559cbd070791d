#pragma once

#include <filesystem>
#include <string>

namespace argosy {

// The file that a rank leaves behind for `argosy trace hang`, in the folder
// that ARGOSY_FLIGHT_DIR names: "flight_rank_3.json".
std::string flight_record_name(int rank);

bool is_flight_record(const std::filesystem::path& path);

} // namespace argosy
