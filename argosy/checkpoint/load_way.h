#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "argosy/checkpoint/folder.h"

namespace argosy::checkpoint {

// When the state's memory changes.
enum class Order {
  VerifyThenRead, // all bytes are read and verified, then read again
  ReadWithUndo,   // at once; what was there is kept, and comes back on an error
  ReadInPlace,    // at once
};

// How a checkpoint is read, the same on all ranks.
struct LoadWay {
  Order order = Order::VerifyThenRead;
  // Past the page cache, by threads that read ahead.
  bool ahead = false;

  bool operator==(const LoadWay&) const = default;
};

std::ostream& operator<<(std::ostream& out, const LoadWay& way);
std::string to_text(const LoadWay& way);
LoadWay parse_load_way(const std::string& text); // of to_text()

struct LoadPlace {
  bool is_local = true;
  std::uint64_t bytes = 0;       // of the checkpoint's tensors
  double cached_share = 1;       // of its files, in the page cache
  std::uint64_t copy_bytes = 0;  // that copies of all ranks take at most
  std::uint64_t free_memory = 0; // of this host
};

// What is in the page cache is read from there again, which is cheaper than
// copies; what is small is not worth threads. Pure.
LoadWay choose_way(bool verify_first, const LoadPlace& place);

LoadPlace look_at(
    const Folder& folder,
    const std::string& name,
    const Manifest& manifest,
    int num_ranks,
    Deadline deadline);

} // namespace argosy::checkpoint
