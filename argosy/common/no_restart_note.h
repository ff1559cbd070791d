#pragma once

#include <filesystem>

// How a rank tells its launcher that to start it again is of no use: with a
// file in ARGOSY_FLIGHT_DIR.
namespace argosy {

// Throws SystemError.
void write_no_restart_note(const std::filesystem::path& folder);

// False for a folder that is not there.
bool has_no_restart_note(const std::filesystem::path& folder);

} // namespace argosy
