#pragma once

#include <string>
#include <string_view>

#include "argosy/fs/open.h"

namespace argosy::fs {

// Reads a whole file. For small ones.
std::string read_text(const Location& file, Deadline deadline);

// Writes a whole file, atomically. For small ones.
void write_text(const Location& file, std::string_view text, Deadline deadline);

struct CopyOptions {
  // Copies that run at once in a folder.
  int num_threads = 1;
  OnProgress on_progress; // per file; called by the threads that copy
};

// Copies a file, or a folder with all in it, between any two file systems. `to`
// is the name of the copy; a folder is merged into one that exists, files are
// replaced. Memory does not depend on sizes.
void copy(
    const Location& from,
    const Location& to,
    const CopyOptions& options,
    Deadline deadline);

} // namespace argosy::fs
