#pragma once

#include <filesystem>
#include <string>

namespace argosy::comm {

// What the calling thread's rank did last: its last 1024 operations, and all
// that are under way, as JSON. `argosy trace hang` reads such files from all
// ranks and says which rank the others wait for. Neither communicates; any
// thread of the rank may call them, also while others wait in an operation.
// Both throw InvalidArgument when the thread has no world.
std::string flight_record_json();

// Writes it to a file, at once or not at all. Name it flight_rank_<rank>.json
// for `argosy trace hang`. Throws SystemError.
void dump_flight_record(const std::filesystem::path& path);

} // namespace argosy::comm
