#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/convert/convert.h"
#include "argosy/fs/open.h"

namespace argosy::checkpoint {

// Something that is wrong with a checkpoint.
struct Damage {
  std::string file;        // relative to the folder
  std::string tensor;      // empty if it is the file as a whole
  std::uint64_t byte = 0;  // of the file, from which on it is damaged
  std::uint64_t bytes = 0; // how many; 0 if that is not known
  std::string what;

  bool operator==(const Damage&) const = default;
};

struct VerifyReport {
  std::int64_t step = 0;
  std::size_t tensors = 0;
  std::size_t pieces = 0;
  std::uint64_t bytes = 0;       // read and compared
  std::size_t roots = 0;         // recomputed and compared
  bool roots_unreadable = false; // encrypted, and no key was given
  std::vector<Damage> damages;
};

// Reads all of a committed checkpoint and compares each chunk with its hash,
// each tensor with its root and the checkpoint with its own, and each file's
// header with the manifest. Finds all damage, not the first only. `cipher` is
// for roots of encrypted checkpoints. Throws CheckpointError if there is no
// manifest or it cannot be read.
VerifyReport verify_checkpoint(
    const fs::Location& folder,
    const Cipher* cipher = nullptr,
    const OnConvert& on_progress = {});

} // namespace argosy::checkpoint
