#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "argosy/data/slots/records.h"

namespace argosy::data {

// The values of one slot in a batch. `offsets` are those that EmbeddingBag
// takes.
struct SlotTensor {
  // Dense: [batch, shape of the slot]; else the values of all samples, one
  // after another. Floats, or ids as int64 (from 2^63 on they are negative).
  at::Tensor values;
  // Index of each sample's first value, [batch]; undefined for dense slots.
  at::Tensor offsets;
};

struct SlotBatch {
  std::int64_t size = 0;           // samples
  std::vector<SlotTensor> tensors; // in the order of the slots
  std::vector<std::string> ids;    // of the samples, if lines have them
  std::vector<LogKey> log_keys;    // the same
  std::shared_ptr<const RecordLayout> layout;

  // Of the slot of that name. Throws InvalidArgument.
  const SlotTensor& operator[](const std::string& name) const;
};

SlotBatch make_slot_batch(
    const std::shared_ptr<const RecordLayout>& layout,
    std::span<const std::byte* const> samples);

} // namespace argosy::data
