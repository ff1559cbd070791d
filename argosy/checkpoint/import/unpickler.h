#pragma once

#include <cstdint>

#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/import/pickle_value.h"

namespace argosy::checkpoint {

// Reads a pickle of protocol 2 to 5 that begins at `offset`, and moves `offset`
// behind it. No code is run: classes and functions are known by name, those in
// the list of pickle_globals.h make values, and all others are refused. Throws
// CheckpointError that names the class and the byte of the file.
//
// Allocates no more than a multiple of the pickle's bytes, and at most about
// 2 GB.
Pickle unpickle(const Source& source, std::uint64_t& offset);

// The same from the beginning.
Pickle unpickle(const Source& source);

} // namespace argosy::checkpoint
