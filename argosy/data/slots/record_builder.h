#pragma once

#include <string_view>
#include <vector>

#include "argosy/data/slots/records.h"

namespace argosy::data {

// What stands in front of the values of a sample.
struct RecordHead {
  std::string_view id = {};
  std::string_view content = {};
  LogKey log_key = {};
};

inline RecordHead head_of(const RecordView& sample) {
  return {sample.id(), sample.content(), sample.log_key()};
}

// Adds a sample with these values, one entry for each slot. Not installed.
void build_record(
    const RecordLayout& layout,
    const RecordHead& head,
    const std::vector<SlotValues>& values,
    Records& into);

} // namespace argosy::data
