#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace argosy {
class World;
}

namespace argosy::comm {

namespace flight {
class BlackBox;
}

// What the calling thread's rank did last: its last 1024 operations, and all
// that are under way, as JSON. `argosy trace hang` reads such files from all
// ranks and says which rank the others wait for. Neither function communicates;
// any thread of the rank may call them, also while others wait in an operation.
// Both throw InvalidArgument when the thread has no world.
std::string flight_record_json();

// Writes the record to a file, at once or not at all. Name the file
// flight_rank_<rank>.json for `argosy trace hang`. Throws SystemError.
void dump_flight_record(const std::filesystem::path& path);

// The flight recorder of a world; the first call makes it. ARGOSY_FLIGHT_DIR
// names its folder.
std::shared_ptr<flight::BlackBox> black_box_of(World& world);

} // namespace argosy::comm
