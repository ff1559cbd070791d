#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/data/slots/bad_lines.h"
#include "argosy/data/slots/sample_format.h"
#include "argosy/data/slots/slot_files.h"

// Datasets of samples that have slots, as in paddle.distributed: one that is
// held in memory, and one that is read as it is used.
namespace argosy::data {

struct SlotBatch;

struct SlotDatasetOptions {
  Slots slots; // of a sample; MultiSlot lines have them in this order
  std::int64_t batch_size = 1;
  bool drop_last = false; // a last batch that is smaller
  SlotFileOptions files = {};
  FormatOptions format = MultiSlotOptions{};
  std::int64_t max_bad_lines = 0; // more are an error; -1: any number
  std::uint64_t seed = 0;         // of shuffles
};

// One pass over a dataset. Several threads may take batches from it.
class SlotPass {
 public:
  virtual ~SlotPass() = default;

  // The next batch; nullopt at the end of the pass. Throws what reading threw.
  virtual std::optional<SlotBatch> next() = 0;
};

class SlotDataset {
 public:
  virtual ~SlotDataset() = default;

  // The dataset must outlive the pass, and not change while it runs.
  virtual std::unique_ptr<SlotPass> start_pass() = 0;

  virtual const Slots& slots() const = 0;
  // Since it was made.
  virtual std::int64_t num_bad_lines() const = 0;
};

// Throws InvalidArgument.
void check_options(const SlotDatasetOptions& options);

} // namespace argosy::data
