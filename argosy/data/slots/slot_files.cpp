#include "argosy/data/slots/slot_files.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/fs/command_stream.h"
#include "argosy/fs/stream.h"

namespace argosy::data {

namespace {

std::unique_ptr<fs::ByteStream> open_file(
    const std::string& url, const SlotFileOptions& options) {
  auto file = fs::open_stream(url, Deadline::after(options.read_limit));
  if (options.pipe_command.empty() || options.pipe_command == "cat") {
    return file;
  }
  return fs::make_command_stream(
      options.pipe_command, std::move(file), options.read_limit);
}

// What the reading threads share.
class SlotFiles {
 public:
  SlotFiles(
      const SlotReading& reading,
      std::size_t part_bytes,
      const TakeRecords& take)
      : files_(reading.files),
        options_(reading.options),
        reading_(reading),
        part_bytes_(part_bytes),
        take_(take) {}

  void run() {
    const std::size_t num_threads = std::clamp<std::size_t>(
        static_cast<std::size_t>(options_.num_threads), 1, files_.size() + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < num_threads && i < files_.size(); ++i) {
      threads.emplace_back([this] { read_some(); });
    }
    read_some();
    for (std::thread& thread : threads) {
      thread.join();
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  bool ends() const { return done_.load() || reading_.stop.load(); }

  void read_some() {
    try {
      for (std::size_t file = next_++; file < files_.size() && !ends();
           file = next_++) {
        read(file);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = error_ ? error_ : std::current_exception();
      done_ = true;
    }
  }

  void read(std::size_t file) {
    using Step = SampleSource::Step;
    constexpr int kBetweenChecks = 256; // samples
    const auto source = reading_.format.open(
        open_file(files_[file], options_), options_.read_limit);
    Records records;
    SampleFault fault;
    for (int i = 1;; ++i) {
      const Step step = source->next(records, fault);
      if (step == Step::End) {
        break;
      }
      if (step == Step::Bad) {
        reading_.bad_lines.add(files_[file], fault);
      }
      if (records.bytes() >= part_bytes_ && !hand_over(file, records)) {
        return;
      }
      if (i % kBetweenChecks == 0 && ends()) {
        return;
      }
    }
    hand_over(file, records);
  }

  bool hand_over(std::size_t file, Records& records) {
    if (!take_(file, std::exchange(records, Records()))) {
      done_ = true;
    }
    return !ends();
  }

  const std::vector<std::string>& files_;
  const SlotFileOptions& options_;
  const SlotReading& reading_;
  const std::size_t part_bytes_;
  const TakeRecords& take_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  std::exception_ptr error_; // guarded by mutex_
};

} // namespace

void read_slot_files(
    const SlotReading& reading,
    std::size_t part_bytes,
    const TakeRecords& take) {
  ARGOSY_CHECK(
      reading.options.num_threads > 0,
      "[data.slots] {} threads, expected at least 1",
      reading.options.num_threads);
  SlotFiles(reading, part_bytes, take).run();
}

Records load_slot_files(const SlotReading& reading) {
  std::vector<Records> of_file(reading.files.size()); // each is one thread's
  read_slot_files(
      reading,
      std::numeric_limits<std::size_t>::max(),
      [&](std::size_t file, Records&& records) {
        of_file[file] = std::move(records);
        return true;
      });
  Records all;
  for (Records& records : of_file) {
    all.append(std::move(records));
  }
  return all;
}

} // namespace argosy::data
