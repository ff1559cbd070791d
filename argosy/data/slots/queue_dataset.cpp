#include "argosy/data/slots/queue_dataset.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "argosy/data/slots/slot_batch.h"

namespace argosy::data {

namespace {

// Threads read, whoever trains takes: samples are in parts of about a quarter
// of a MB, and no more than a few parts are ahead.
class QueuePass final : public SlotPass {
 public:
  QueuePass(
      const std::vector<std::string>& files,
      const SlotDatasetOptions& options,
      std::shared_ptr<const SampleFormat> format,
      BadLines& bad_lines)
      : options_(options),
        format_(std::move(format)),
        max_parts_(2 + 2 * static_cast<std::size_t>(options.files.num_threads)),
        reader_([this, &files, &bad_lines] { read(files, bad_lines); }) {}

  ~QueuePass() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    reader_.join();
  }

  std::optional<SlotBatch> next() override {
    const auto wanted = static_cast<std::size_t>(options_.batch_size);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ >= wanted || is_read_; });
    if (error_) {
      std::rethrow_exception(error_);
    }
    if (left_ == 0 || (left_ < wanted && options_.drop_last)) {
      return std::nullopt;
    }
    const auto taken = take(std::min(wanted, left_));
    lock.unlock();
    changed_.notify_all();
    std::vector<const std::byte*> samples;
    for (const auto& [part, index] : taken) {
      samples.push_back((*part)[index]);
    }
    return make_slot_batch({format_, &format_->layout()}, samples);
  }

 private:
  static constexpr std::size_t kPartBytes = std::size_t{256} << 10;

  struct Sample {
    std::shared_ptr<const Records> part;
    std::size_t index;
  };

  void read(const std::vector<std::string>& files, BadLines& bad_lines) {
    std::exception_ptr error;
    try {
      read_slot_files(
          {files, *format_, options_.files, bad_lines, stop_},
          kPartBytes,
          [this](std::size_t, Records&& part) { return put(std::move(part)); });
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_read_ = true;
    changed_.notify_all();
  }

  // Waits for room. A batch may need more parts than there is room for.
  bool put(Records&& part) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stop_ || parts_.size() < max_parts_ ||
          left_ < static_cast<std::size_t>(options_.batch_size);
    });
    if (!part.empty()) {
      left_ += part.size();
      parts_.push_back(std::make_shared<const Records>(std::move(part)));
      changed_.notify_all();
    }
    return !stop_;
  }

  // With the mutex held.
  std::vector<Sample> take(std::size_t count) {
    std::vector<Sample> samples;
    while (samples.size() < count) {
      samples.push_back({parts_.front(), front_++});
      if (front_ == parts_.front()->size()) {
        parts_.pop_front();
        front_ = 0;
      }
    }
    left_ -= count;
    return samples;
  }

  const SlotDatasetOptions& options_;
  const std::shared_ptr<const SampleFormat> format_;
  const std::size_t max_parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  // Guarded by mutex_.
  std::deque<std::shared_ptr<const Records>> parts_;
  std::size_t front_ = 0; // next sample of the first part
  std::size_t left_ = 0;  // samples of all parts
  bool is_read_ = false;
  std::exception_ptr error_;
  std::thread reader_; // last: it uses the others
};

} // namespace

QueueDataset::QueueDataset(SlotDatasetOptions options)
    : options_(std::move(options)),
      format_(make_format(options_.slots, options_.format)),
      bad_lines_(options_.max_bad_lines) {
  check_options(options_);
}

void QueueDataset::set_filelist(std::vector<std::string> files) {
  files_ = std::move(files);
}

std::unique_ptr<SlotPass> QueueDataset::start_pass() {
  return std::make_unique<QueuePass>(files_, options_, format_, bad_lines_);
}

} // namespace argosy::data
