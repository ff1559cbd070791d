#pragma once

#include <cstdint>
#include <vector>

#include "argosy/data/slots/in_memory_dataset.h"
#include "argosy/data/slots/records.h"

namespace argosy::data {

// Makes samples of the values of others. Not installed.
class RecordBuilder {
 public:
  explicit RecordBuilder(const RecordLayout& layout) : layout_(layout) {}

  // Adds a sample with the id, content and log key of `head`.
  void build(
      const RecordView& head,
      const std::vector<SlotValues>& values,
      Records& into) const;

 private:
  const RecordLayout& layout_;
};

// Makes one sample of all that have the same id; see GlobalShuffleOptions. The
// result is ordered by the first sample of each id. `drops_zeros`: that of the
// format that the samples were read with.
MergeCounts merge_by_id(
    const RecordLayout& layout,
    Records& records,
    std::int64_t merge_size,
    bool drops_zeros);

} // namespace argosy::data
