#pragma once

#include <string_view>

namespace argosy::ps {

// What a save writes and does to the rows; numbers are those of the reference.
enum class SaveMode {
  Checkpoint = 0, // all rows
  // Rows with score >= base_threshold, delta_score >= delta_threshold and
  // unseen_days <= delta_keep_days; delta_score of what was saved restarts.
  Delta = 1,
  Base = 2,       // the same with delta_threshold 0
  BatchModel = 3, // all rows; then a day ends: unseen_days + 1
};

// Throws InvalidArgument for other numbers.
SaveMode save_mode(int number);

std::string_view to_string(SaveMode mode); // "checkpoint", "delta", ...

} // namespace argosy::ps
