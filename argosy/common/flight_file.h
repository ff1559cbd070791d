#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "argosy/common/environment.h"

// Files by which ranks, `argosy run` and `argosy trace hang` tell each other of
// operations that do not end. They lie in ARGOSY_FLIGHT_DIR.
namespace argosy {

// The name of the flight record that a rank writes: "flight_rank_3.json".
std::string flight_record_name(int rank);

bool is_flight_record(const std::filesystem::path& path);

// Why the rank wrote its record; empty if there is none that can be read.
std::string flight_record_reason(const std::filesystem::path& folder, int rank);

// A file that is there while the rank waits in an operation for a while.
std::string flight_wait_name(int rank);

// Whether a rank of the folder waits for a while.
bool has_flight_wait(const std::filesystem::path& folder);

// A rank writes this file when it has waited too long, to make the launcher say
// so.
inline constexpr const char* kFlightHangName = "flight_hang";

// How long an operation may wait until it is reported (ARGOSY_HANG_WARNING);
// zero: for ever. Throws InvalidArgument for a value that is no time.
std::chrono::milliseconds hang_warning_after(const Environment& environment);

// How long a rank waits until it says so with a file, for a job that is ended
// while it hangs.
constexpr std::chrono::milliseconds noted_wait(
    std::chrono::milliseconds warning_after) {
  return warning_after / 12;
}

} // namespace argosy
