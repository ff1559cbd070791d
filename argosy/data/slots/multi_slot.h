#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "argosy/data/slots/records.h"

namespace argosy::data {

// How a line of MultiSlot text is read. The defaults refuse what is doubtful;
// Paddle's own reader is `drop_zeros` and `ignore_rest`.
struct MultiSlotOptions {
  // In front of the slots, in this order, each as "1 <text>":
  bool has_id = false;      // the sample's id
  bool has_content = false; // any text
  bool has_log_key = false; // 32 hexadecimal digits or more: see LogKey

  // A slot may have 0 values. Refused otherwise.
  bool allow_empty = false;
  // Leaves out zeros (ids, and floats below 1e-6) of slots that are not dense;
  // a slot that has no values then has a single 0.
  bool drop_zeros = false;
  // Text after the last slot is ignored. Refused otherwise.
  bool ignore_rest = false;
};

// What is wrong with a line.
struct LineFault {
  std::size_t column = 0; // of the first character that does not fit, from 1
  std::string what;       // "slot \"user\": 3 values, the line has 2"
};

// MultiSlot text: a sample a line; for each slot its number of values, and
// these, separated by blanks. Thread-safe.
class MultiSlotParser {
 public:
  MultiSlotParser(Slots slots, MultiSlotOptions options = {});

  const RecordLayout& layout() const { return layout_; }

  // Adds the sample of a line (without its end) to `into`, or says what is
  // wrong with the line, and adds nothing.
  std::optional<LineFault> parse(std::string_view line, Records& into) const;

 private:
  const RecordLayout layout_;
  const MultiSlotOptions options_;
};

} // namespace argosy::data
