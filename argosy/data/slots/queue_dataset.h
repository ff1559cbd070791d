#pragma once

#include <string>
#include <vector>

#include "argosy/data/slots/slot_dataset.h"

namespace argosy::data {

// Reads its files while it is used: each sample of a pass once, in memory that
// does not grow with the files. The order of samples depends on the threads,
// unless there is one.
class QueueDataset final : public SlotDataset {
 public:
  explicit QueueDataset(SlotDatasetOptions options);

  // URLs of argosy/fs: the files of this worker.
  void set_filelist(std::vector<std::string> files);

  std::unique_ptr<SlotPass> start_pass() override;
  const Slots& slots() const override { return options_.slots; }
  std::int64_t num_bad_lines() const override { return bad_lines_.count(); }

 private:
  const SlotDatasetOptions options_;
  const std::shared_ptr<const SampleFormat> format_;
  std::vector<std::string> files_;
  BadLines bad_lines_;
};

} // namespace argosy::data
