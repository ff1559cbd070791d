#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/data/slots/slot_dataset.h"

namespace argosy {
class Group;
} // namespace argosy

namespace argosy::data {

// Where global_shuffle() sends a sample.
enum class ShuffleBy {
  Random,
  Id,   // by its id: equal ids meet on one worker
  Slot, // by the first id of a slot, for example that of the user
};

struct GlobalShuffleOptions {
  ShuffleBy by = ShuffleBy::Random;
  std::string slot = {}; // for ShuffleBy::Slot
  // For ShuffleBy::Id: samples with the same id become one. A slot may have
  // values in one of them only; dense slots must be equal.
  bool merge = false;
  // Merged samples of another number of parts are left out; 0: any number.
  std::int64_t merge_size = 0;
};

// What became of samples in a merge.
struct MergeCounts {
  std::int64_t merged = 0;     // samples that are there now
  std::int64_t wrong_size = 0; // ids left out: not merge_size parts
  std::int64_t conflicts = 0;  // ids left out: two parts have the same slot
};

// Holds the samples of its files in memory: they can be shuffled, within a
// worker and between workers, and passed over several times.
class InMemoryDataset final : public SlotDataset {
 public:
  explicit InMemoryDataset(SlotDatasetOptions options);
  // Ends preloading.
  ~InMemoryDataset() override;
  InMemoryDataset(const InMemoryDataset&) = delete;
  InMemoryDataset& operator=(const InMemoryDataset&) = delete;

  // URLs of argosy/fs: the files of this worker.
  void set_filelist(std::vector<std::string> files);
  // The day that the files are of. Kept, for whoever asks.
  void set_date(std::string date) { date_ = std::move(date); }
  const std::string& date() const { return date_; }
  // What later loads and passes use.
  void update_settings(const SlotDatasetOptions& options);

  // Replaces the samples by those of the files.
  void load_into_memory(bool is_shuffle = false);
  // The same beside what else the caller does: until wait_preload_done(), the
  // old samples are there.
  void preload_into_memory(int num_threads = 0); // 0: as options.files say
  // Throws what reading threw; the old samples are there then.
  void wait_preload_done();

  void release_memory();

  // Puts the samples of this worker in an order that depends on the seed and
  // the number of shuffles so far.
  void local_shuffle();
  // Deals the samples of all workers of the group out anew, and shuffles them
  // locally. Null: all ranks. A collective.
  MergeCounts global_shuffle(
      const std::shared_ptr<Group>& group = nullptr,
      const GlobalShuffleOptions& options = {});
  // Exchanges the values of these slots between samples at random, and leaves
  // the others: how much worse a model becomes shows what a slot is worth.
  void slots_shuffle(const std::vector<std::string>& slots);

  std::int64_t memory_data_size() const;
  // Of all workers of the group. A collective.
  std::int64_t memory_data_size(const std::shared_ptr<Group>& group) const;
  std::int64_t memory_bytes() const;

  std::unique_ptr<SlotPass> start_pass() override;
  const Slots& slots() const override { return options_.slots; }
  std::int64_t num_bad_lines() const override { return bad_lines_->count(); }

  const Records& records() const { return records_; }
  const RecordLayout& layout() const { return format_->layout(); }

 private:
  struct Preload;
  std::uint64_t next_seed();

  SlotDatasetOptions options_;
  std::shared_ptr<const SampleFormat> format_;
  std::shared_ptr<BadLines> bad_lines_; // shared with a preload
  std::vector<std::string> files_;
  std::string date_;
  Records records_;
  std::uint64_t num_shuffles_ = 0;
  std::unique_ptr<Preload> preload_;
};

} // namespace argosy::data
