#include "argosy/online/train_from_dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/data/slots/slot_batch.h"
#include "argosy/data/slots/slot_dataset.h"
#include "argosy/online/rethrow.h"
#include "argosy/world/world.h"

namespace argosy::online {

namespace {

constexpr std::chrono::hours kNoLimit{24 * 365 * 10};

// Means of fetched values, since the last line and since the beginning. With a
// lock held.
class Fetched {
 public:
  explicit Fetched(std::size_t count) : sums_(count), recent_(count) {}

  void add(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      sums_[i] += values[i];
      recent_[i] += values[i];
    }
    ++num_;
    ++num_recent_;
  }

  std::vector<double> take_recent() {
    const auto means = divided(recent_, num_recent_);
    std::ranges::fill(recent_, 0);
    num_recent_ = 0;
    return means;
  }
  std::vector<double> means() const { return divided(sums_, num_); }

 private:
  static std::vector<double> divided(
      std::vector<double> sums, std::int64_t count) {
    for (double& sum : sums) {
      sum /= static_cast<double>(std::max<std::int64_t>(count, 1));
    }
    return sums;
  }

  std::vector<double> sums_;
  std::vector<double> recent_;
  std::int64_t num_ = 0;
  std::int64_t num_recent_ = 0;
};

std::string place_text(const BatchPlace& place, const data::SlotBatch& batch) {
  std::string text = str_format(
      "[online.train] thread {}, pass {}, batch {}",
      place.thread,
      place.pass + 1,
      place.batch);
  if (!batch.ids.empty()) {
    text += str_format(
        " (samples '{}' to '{}')", batch.ids.front(), batch.ids.back());
  }
  return text;
}

class TrainRun {
 public:
  TrainRun(
      data::SlotDataset& dataset,
      const BatchStep& step,
      const TrainOptions& options)
      : dataset_(dataset),
        step_(step),
        options_(options),
        deadline_(
            options.limit.count() > 0 ? Deadline::after(options.limit)
                                      : Deadline::after(kNoLimit)),
        fetched_(options.fetch.size()) {}

  TrainResult run() {
    for (pass_ = 0; pass_ < options_.num_passes; ++pass_) {
      batches_ = 0;
      const auto batches = dataset_.start_pass();
      if (options_.num_threads == 1) {
        take_batches(*batches, 0);
      } else {
        run_threads(*batches);
      }
      if (failure_) {
        std::rethrow_exception(failure_);
      }
      for (auto i = batches_.load(); i < options_.min_batches; ++i) {
        options_.fill_up();
      }
    }
    return {num_batches_, num_samples_, seconds(), fetched_.means()};
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now() - begin_)
        .count();
  }

  void run_threads(data::SlotPass& batches) {
    const auto world = current_world();
    const bool with_gradients = at::GradMode::is_enabled();
    std::vector<std::thread> threads;
    for (int i = 0; i < options_.num_threads; ++i) {
      threads.emplace_back([&, i] {
        std::optional<WorldScope> scope;
        if (world) {
          scope.emplace(world);
        }
        const at::AutoGradMode mode(with_gradients);
        take_batches(batches, i);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  void take_batches(data::SlotPass& batches, int thread) {
    try {
      while (!stop_) {
        const auto batch = batches.next();
        if (!batch) {
          return;
        }
        check_time();
        step({thread, pass_, batches_++}, *batch);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      if (!failure_) {
        failure_ = std::current_exception();
      }
    }
  }

  void check_time() const {
    if (deadline_.expired()) {
      throw TimeoutError(str_format(
          "[online.train] {} are over in pass {} of {}, after {} batches",
          deadline_.limit_text(),
          pass_ + 1,
          options_.num_passes,
          batches_.load()));
    }
  }

  void step(const BatchPlace& place, const data::SlotBatch& batch) {
    std::vector<double> values;
    try {
      values = step_(batch, place);
      ARGOSY_CHECK(
          values.size() == options_.fetch.size(),
          "the step returned {} values, expected {}, one for each name",
          values.size(),
          options_.fetch.size());
    } catch (...) {
      rethrow_behind(place_text(place, batch));
    }
    const std::lock_guard lock(mutex_);
    fetched_.add(values);
    ++num_batches_;
    num_samples_ += batch.size;
    if (options_.print_period > 0 &&
        (place.batch + 1) % options_.print_period == 0) {
      print(place);
    }
  }

  void print(const BatchPlace& place) {
    const auto rate = std::llround(
        static_cast<double>(num_samples_) / std::max(seconds(), 1e-9));
    std::string line = str_format(
        "pass {} of {}, batch {}, {} samples/s",
        place.pass + 1,
        options_.num_passes,
        place.batch + 1,
        rate);
    const auto means = fetched_.take_recent();
    for (std::size_t i = 0; i < means.size(); ++i) {
      line += str(i == 0 ? ": " : ", ", options_.fetch[i], ' ', means[i]);
    }
    if (options_.print) {
      options_.print(line);
    } else {
      std::cerr << line + "\n"; // one write
    }
  }

  data::SlotDataset& dataset_;
  const BatchStep& step_;
  const TrainOptions& options_;
  const Deadline deadline_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  int pass_ = 0;
  std::atomic<std::int64_t> batches_{0}; // of this pass
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  // Guarded by mutex_.
  std::exception_ptr failure_;
  Fetched fetched_;
  std::int64_t num_batches_ = 0;
  std::int64_t num_samples_ = 0;
};

void check(const TrainOptions& options) {
  ARGOSY_CHECK(
      options.num_threads > 0 && options.num_passes > 0 &&
          options.print_period >= 0 && options.limit.count() >= 0,
      "[online.train] {} threads, {} passes, a line every {} batches, a limit "
      "of {} ms, expected none below 0, and threads and passes",
      options.num_threads,
      options.num_passes,
      options.print_period,
      options.limit.count());
  ARGOSY_CHECK(
      options.min_batches == 0 || (options.num_threads == 1 && options.fill_up),
      "[online.train] at least {} batches on {} threads, expected one thread, "
      "and fill_up()",
      options.min_batches,
      options.num_threads);
}

// By name: tensors of one module take the memory of those of the other.
template <typename Named>
void share(const char* what, const Named& shared, Named replica) {
  ARGOSY_CHECK(
      shared.size() == replica.size(),
      "[online.share_parameters] {} {} and {}, expected as many",
      shared.size(),
      what,
      replica.size());
  for (auto& item : replica) {
    const at::Tensor* from = shared.find(item.key());
    ARGOSY_CHECK(
        from != nullptr && from->sizes() == item.value().sizes() &&
            from->scalar_type() == item.value().scalar_type(),
        "[online.share_parameters] '{}' is not the same in both modules, "
        "expected names, shapes and types to be equal",
        item.key());
    item.value().set_data(from->detach());
  }
}

} // namespace

TrainResult train_from_dataset(
    data::SlotDataset& dataset,
    const BatchStep& step,
    const TrainOptions& options) {
  check(options);
  return TrainRun(dataset, step, options).run();
}

TrainResult infer_from_dataset(
    data::SlotDataset& dataset,
    const BatchStep& step,
    const TrainOptions& options) {
  const at::NoGradGuard no_gradients;
  return train_from_dataset(dataset, step, options);
}

void share_parameters(
    const torch::nn::Module& shared, torch::nn::Module& replica) {
  share("parameters", shared.named_parameters(), replica.named_parameters());
  share("buffers", shared.named_buffers(), replica.named_buffers());
}

} // namespace argosy::online
