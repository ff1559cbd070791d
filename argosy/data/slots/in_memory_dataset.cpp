#include "argosy/data/slots/in_memory_dataset.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <random>
#include <utility>

#include "argosy/comm/ops.h"
#include "argosy/common/error.h"
#include "argosy/data/shuffle.h"
#include "argosy/data/slots/exchange.h"
#include "argosy/data/slots/merge.h"
#include "argosy/data/slots/record_builder.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/world/world.h"

namespace argosy::data {

struct InMemoryDataset::Preload {
  std::atomic<bool> stop{false};
  std::vector<std::string> files;
  std::shared_ptr<const SampleFormat> format;
  std::future<Records> records;
};

namespace {

class MemoryPass final : public SlotPass {
 public:
  MemoryPass(
      const Records& records,
      const SlotDatasetOptions& options,
      std::shared_ptr<const RecordLayout> layout)
      : records_(records),
        batch_(static_cast<std::size_t>(options.batch_size)),
        end_(
            options.drop_last ? records.size() / batch_ * batch_
                              : records.size()),
        layout_(std::move(layout)) {}

  std::optional<SlotBatch> next() override {
    const std::size_t first = next_.fetch_add(batch_);
    if (first >= end_) {
      return std::nullopt;
    }
    return make_slot_batch(
        layout_,
        records_.samples().subspan(first, std::min(batch_, end_ - first)));
  }

 private:
  const Records& records_;
  const std::size_t batch_;
  const std::size_t end_;
  const std::shared_ptr<const RecordLayout> layout_;
  std::atomic<std::size_t> next_{0};
};

} // namespace

InMemoryDataset::InMemoryDataset(SlotDatasetOptions options)
    : options_(std::move(options)),
      format_(make_format(options_.slots, options_.format)),
      bad_lines_(std::make_shared<BadLines>(options_.max_bad_lines)) {
  check_options(options_);
}

InMemoryDataset::~InMemoryDataset() {
  if (preload_) {
    preload_->stop = true; // the future's destructor waits
  }
}

void InMemoryDataset::set_filelist(std::vector<std::string> files) {
  files_ = std::move(files);
}

void InMemoryDataset::update_settings(const SlotDatasetOptions& options) {
  check_options(options);
  ARGOSY_CHECK(
      !preload_, "[data.update_settings] a preload runs, expected none");
  ARGOSY_CHECK(
      records_.empty() || options.slots == options_.slots,
      "[data.update_settings] other slots while {} samples are in memory: "
      "call release_memory() first",
      records_.size());
  auto format = make_format(options.slots, options.format);
  ARGOSY_CHECK(
      records_.empty() ||
          (format->layout().has_texts() == layout().has_texts() &&
           format->layout().has_log_key() == layout().has_log_key()),
      "[data.update_settings] other texts in front of the slots while {} "
      "samples are in memory: call release_memory() first",
      records_.size());
  if (options.max_bad_lines != options_.max_bad_lines) {
    bad_lines_ = std::make_shared<BadLines>(options.max_bad_lines);
  }
  options_ = options;
  format_ = std::move(format);
}

void InMemoryDataset::load_into_memory(bool is_shuffle) {
  preload_into_memory();
  wait_preload_done();
  if (is_shuffle) {
    local_shuffle();
  }
}

void InMemoryDataset::preload_into_memory(int num_threads) {
  ARGOSY_CHECK(
      !preload_,
      "[data.preload_into_memory] a preload runs, expected wait_preload_done() "
      "before the next");
  SlotFileOptions how = options_.files;
  how.num_threads = num_threads > 0 ? num_threads : how.num_threads;
  preload_ = std::make_unique<Preload>();
  preload_->files = files_;
  preload_->format = format_;
  preload_->records = std::async(
      std::launch::async,
      [preload = preload_.get(), how, bad_lines = bad_lines_] {
        return load_slot_files(
            {preload->files, *preload->format, how, *bad_lines, preload->stop});
      });
}

void InMemoryDataset::wait_preload_done() {
  ARGOSY_CHECK(
      preload_ != nullptr,
      "[data.wait_preload_done] nothing is preloaded, expected "
      "preload_into_memory() before");
  const auto preload = std::exchange(preload_, nullptr);
  records_ = preload->records.get();
}

void InMemoryDataset::release_memory() {
  records_.clear();
}

// Shuffles differ from each other, and are the same in a second run.
std::uint64_t InMemoryDataset::next_seed() {
  return options_.seed * 1000003 + num_shuffles_++;
}

void InMemoryDataset::local_shuffle() {
  records_.shuffle(next_seed());
}

MergeCounts InMemoryDataset::global_shuffle(
    const std::shared_ptr<Group>& group, const GlobalShuffleOptions& options) {
  records_ = exchange_records(
      layout(), std::move(records_), options, next_seed(), group);
  MergeCounts counts;
  if (options.merge) {
    const auto* const text = std::get_if<MultiSlotOptions>(&options_.format);
    counts = merge_by_id(
        layout(),
        records_,
        options.merge_size,
        text != nullptr && text->drop_zeros);
  }
  local_shuffle();
  return counts;
}

void InMemoryDataset::slots_shuffle(const std::vector<std::string>& slots) {
  std::vector<bool> is_moved(options_.slots.size(), false);
  for (const std::string& name : slots) {
    is_moved[slot_index(options_.slots, name)] = true;
  }
  const auto from = shuffled_indices(
      static_cast<std::int64_t>(records_.size()), next_seed(), 0);
  Records result;
  std::vector<SlotValues> own;
  std::vector<SlotValues> other;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const RecordView view(layout(), records_[i]);
    view.values(own);
    RecordView(layout(), records_[static_cast<std::size_t>(from[i])])
        .values(other);
    for (std::size_t slot = 0; slot < own.size(); ++slot) {
      own[slot] = is_moved[slot] ? other[slot] : own[slot];
    }
    build_record(layout(), head_of(view), own, result);
  }
  records_ = std::move(result);
}

std::int64_t InMemoryDataset::memory_data_size() const {
  return static_cast<std::int64_t>(records_.size());
}

std::int64_t InMemoryDataset::memory_data_size(
    const std::shared_ptr<Group>& group) const {
  const at::Tensor size = at::full({1}, memory_data_size(), at::kLong);
  all_reduce(size, ReduceOp::SUM, group);
  return size.item<std::int64_t>();
}

std::int64_t InMemoryDataset::memory_bytes() const {
  return static_cast<std::int64_t>(records_.bytes());
}

std::unique_ptr<SlotPass> InMemoryDataset::start_pass() {
  return std::make_unique<MemoryPass>(
      records_,
      options_,
      std::shared_ptr<const RecordLayout>(format_, &format_->layout()));
}

} // namespace argosy::data
