#include "argosy/data/slots/slot_batch.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "argosy/data/slots/slot.h"

namespace argosy::data {

const SlotTensor& SlotBatch::operator[](const std::string& name) const {
  return tensors[slot_index(layout->slots(), name)];
}

namespace {

at::ScalarType type_of(const Slot& slot) {
  return slot.type == SlotType::Id ? at::kLong : at::kFloat;
}

std::vector<std::int64_t> shape_of(
    const Slot& slot, std::int64_t batch, std::int64_t num_values) {
  if (!slot.is_dense()) {
    return {num_values};
  }
  std::vector<std::int64_t> shape = {batch};
  shape.insert(shape.end(), slot.shape.begin(), slot.shape.end());
  return shape;
}

// All values of a slot, one sample after another; `step` is from one sample's
// entry of `values` to the next one's.
SlotTensor join_values(
    const Slot& slot,
    std::span<const SlotValues> values,
    std::size_t first,
    std::size_t step) {
  const std::size_t batch = values.size() / step;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < batch; ++i) {
    total += static_cast<std::int64_t>(values[i * step + first].size);
  }
  SlotTensor result;
  result.values = at::empty(
      shape_of(slot, static_cast<std::int64_t>(batch), total), type_of(slot));
  const std::size_t element = result.values.element_size();
  auto* to = static_cast<std::byte*>(result.values.data_ptr());
  std::int64_t* offsets = nullptr;
  if (!slot.is_dense()) {
    result.offsets = at::empty({static_cast<std::int64_t>(batch)}, at::kLong);
    offsets = result.offsets.data_ptr<std::int64_t>();
  }
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < batch; ++i) {
    const SlotValues& own = values[i * step + first];
    if (offsets != nullptr) {
      offsets[i] = offset;
    }
    std::memcpy(to, own.data, own.size * element);
    to += own.size * element;
    offset += static_cast<std::int64_t>(own.size);
  }
  return result;
}

} // namespace

SlotBatch make_slot_batch(
    const std::shared_ptr<const RecordLayout>& layout,
    std::span<const std::byte* const> samples) {
  const std::size_t num_slots = layout->slots().size();
  SlotBatch batch;
  batch.size = static_cast<std::int64_t>(samples.size());
  batch.layout = layout;
  std::vector<SlotValues> of_all;
  of_all.reserve(samples.size() * num_slots);
  std::vector<SlotValues> of_one;
  for (const std::byte* const sample : samples) {
    const RecordView view(*layout, sample);
    view.values(of_one);
    of_all.insert(of_all.end(), of_one.begin(), of_one.end());
    if (layout->has_texts()) {
      batch.ids.emplace_back(view.id());
    }
    if (layout->has_log_key()) {
      batch.log_keys.push_back(view.log_key());
    }
  }
  for (std::size_t i = 0; i < num_slots; ++i) {
    batch.tensors.push_back(
        join_values(layout->slots()[i], of_all, i, num_slots));
  }
  return batch;
}

} // namespace argosy::data
