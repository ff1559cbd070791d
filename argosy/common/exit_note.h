#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/process_status.h"

// How a launcher tells ranks what became of another one: with a file in
// ARGOSY_FLIGHT_DIR. A rank alone sees that another is gone, but not how.
namespace argosy {

std::filesystem::path exit_note_path(
    const std::filesystem::path& folder, int rank);

// Throws SystemError.
void write_exit_note(
    const std::filesystem::path& folder, int rank, const ProcessStatus& status);

// Waits for the note of a rank that has ended; nullopt if none comes.
std::optional<ProcessStatus> read_exit_note(
    const std::filesystem::path& folder, int rank, Deadline deadline);

// What the launcher of this process says of a rank that is gone, as a
// predicate: "has left with exit code 0", "died of signal 9 (SIGKILL)". Empty
// if this process has no launcher that says it. Waits for up to 2 s.
std::string how_rank_ended(int rank);

// Says in an error that ranks are gone: "rank 1, 3 of group 0 has left with
// exit code 0". `ended` as how_rank_ended().
std::string gone_text(
    const std::vector<int>& ranks,
    const std::string& group,
    const std::string& ended);

// The ranks that an error blames: those of its first "rank 1, 3 of group".
std::vector<int> ranks_blamed(const std::string& error);

// The ranks that such a text says have left with exit code 0.
std::vector<int> ranks_that_left(const std::string& error);

} // namespace argosy
