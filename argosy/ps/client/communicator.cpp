#include "argosy/ps/client/communicator.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::ps {

namespace {

void merge_sparse(
    Gradients::Sparse& sum,
    const Gradients::Sparse& batch,
    const RowLayout& layout) {
  const auto width = static_cast<std::size_t>(layout.push_dim);
  std::unordered_map<std::uint64_t, std::size_t> rows;
  for (std::size_t i = 0; i < sum.keys.size(); ++i) {
    rows[sum.keys[i]] = i;
  }
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    const float* from = batch.records.data() + i * width;
    const auto [found, is_new] =
        rows.try_emplace(batch.keys[i], sum.keys.size());
    if (is_new) {
      sum.keys.push_back(batch.keys[i]);
      sum.records.insert(sum.records.end(), from, from + width);
      continue;
    }
    float* to = sum.records.data() + found->second * width;
    const std::size_t first = layout.has_ctr() ? 1 : 0; // a slot is no number
    std::copy(from, from + first, to);
    for (std::size_t d = first; d < width; ++d) {
      to[d] += from[d];
    }
  }
}

} // namespace

std::string_view to_string(Mode mode) {
  switch (mode) {
    case Mode::Sync:
      return "sync";
    case Mode::Async:
      return "async";
    case Mode::HalfAsync:
      return "half_async";
    case Mode::Geo:
      return "geo";
  }
  return "unknown";
}

void check(const CommunicatorOptions& options) {
  const auto at_least_one = [](const char* name, int value) {
    ARGOSY_CHECK(
        value >= 1,
        "[ps.communicator] {} is {}, expected 1 or more",
        name,
        value);
  };
  at_least_one("send_queue_size", options.send_queue_size);
  at_least_one("max_merge_var_num", options.max_merge_var_num);
  at_least_one("num_threads", options.num_threads);
  at_least_one("k_steps", options.k_steps);
}

void merge(Gradients& sum, const Gradients& batch, const Client& client) {
  for (const Gradients::Sparse& sparse : batch.sparse) {
    const auto found = std::find_if(
        sum.sparse.begin(), sum.sparse.end(), [&](const auto& other) {
          return other.table == sparse.table;
        });
    if (found == sum.sparse.end()) {
      sum.sparse.push_back(sparse);
    } else {
      merge_sparse(*found, sparse, client.layout(sparse.table));
    }
  }
  for (const Gradients::Dense& dense : batch.dense) {
    const auto found = std::find_if(
        sum.dense.begin(), sum.dense.end(), [&](const auto& other) {
          return other.table == dense.table;
        });
    if (found == sum.dense.end()) {
      sum.dense.push_back(dense);
      continue;
    }
    for (std::size_t i = 0; i < dense.gradient.size(); ++i) {
      found->gradient[i] += dense.gradient[i];
    }
  }
}

Communicator::Communicator(Client& client, CommunicatorOptions options)
    : client_(client), options_(options) {
  check(options_);
  const JobSpec& job = client.options().job;
  ARGOSY_CHECK(
      job.sync == (options_.mode == Mode::Sync) &&
          job.geo == (options_.mode == Mode::Geo),
      "[ps.communicator] mode {} for a job with sync {} and geo {}",
      to_string(options_.mode),
      job.sync,
      job.geo);
  if (options_.mode == Mode::Async) {
    sender_ = std::thread([this] { send_in_background(); });
  }
}

Communicator::~Communicator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (sender_.joinable()) {
    sender_.join();
  }
}

std::int64_t Communicator::step() const {
  const std::lock_guard lock(mutex_);
  return options_.mode == Mode::Sync ? step_ : -1;
}

void Communicator::set_step(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

void Communicator::send_now(const Gradients& gradients, std::int64_t step) {
  std::vector<SparsePush> sparse;
  for (const auto& each : gradients.sparse) {
    sparse.push_back({each.table, each.keys, each.records});
  }
  std::vector<DensePush> dense;
  for (const auto& each : gradients.dense) {
    dense.push_back({each.table, each.gradient});
  }
  client_.push(sparse, dense, step);
}

void Communicator::count(int change) {
  staleness_ += change;
  max_staleness_ = std::max(max_staleness_, staleness_);
}

void Communicator::rethrow_failure() {
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void Communicator::push(Gradients gradients) {
  switch (options_.mode) {
    case Mode::Sync: {
      send_now(gradients, step());
      const std::lock_guard lock(mutex_);
      ++step_;
      return;
    }
    case Mode::Async:
      return push_async(std::move(gradients));
    case Mode::HalfAsync:
      return push_half_async(std::move(gradients));
    case Mode::Geo:
      // Differences: they count when servers have them.
      send_now(gradients, -1);
      client_.flush();
      return;
  }
}

void Communicator::push_async(Gradients gradients) {
  std::unique_lock lock(mutex_);
  const bool has_room =
      changed_.wait_for(lock, client_.options().timeout, [this] {
        return failure_ || unsent_ < options_.send_queue_size;
      });
  rethrow_failure();
  if (!has_room) {
    throw TimeoutError(str_format(
        "[ps.communicator] {} batches wait for the servers for {}",
        unsent_,
        duration_text(client_.options().timeout)));
  }
  queue_.push_back(std::move(gradients));
  ++unsent_;
  count(1);
  changed_.notify_all();
}

// Sends and waits for acknowledgements. Returns what went wrong; null: nothing.
std::exception_ptr Communicator::try_to_send(const Gradients& gradients) {
  try {
    send_now(gradients, -1);
    client_.flush();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void Communicator::send_in_background() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    Gradients sum;
    int merged = 0;
    while (!queue_.empty() && merged < options_.max_merge_var_num) {
      const Gradients batch = std::move(queue_.front());
      queue_.pop_front();
      merge(sum, batch, client_);
      ++merged;
    }
    lock.unlock();
    const std::exception_ptr failure = try_to_send(sum);
    lock.lock();
    unsent_ -= merged;
    count(-merged);
    if (failure) {
      failure_ = failure;
    }
    changed_.notify_all();
  }
}

// The last thread of a round sends for all, and all learn what came of it.
void Communicator::push_half_async(Gradients gradients) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Round> round = round_;
  count(1);
  merge(round->sum, gradients, client_);
  if (++round->arrived < options_.num_threads) {
    await_round(lock, *round);
  } else {
    round_ = std::make_shared<Round>();
    lock.unlock();
    const std::exception_ptr failure = try_to_send(round->sum);
    lock.lock();
    count(-round->arrived);
    round->failure = failure;
    round->sent = true;
    changed_.notify_all();
  }
  if (round->failure) {
    std::rethrow_exception(round->failure);
  }
}

void Communicator::await_round(
    std::unique_lock<std::mutex>& lock, const Round& round) {
  // The thread that sends has a time limit of its own.
  const auto limit = 2 * client_.options().timeout;
  if (!changed_.wait_for(lock, limit, [&] { return round.sent; })) {
    throw TimeoutError(str_format(
        "[ps.communicator] {} of {} threads have pushed after {}",
        round.arrived,
        options_.num_threads,
        duration_text(limit)));
  }
}

void Communicator::flush() {
  {
    std::unique_lock lock(mutex_);
    const bool sent =
        changed_.wait_for(lock, client_.options().timeout, [this] {
          return failure_ || unsent_ == 0;
        });
    rethrow_failure();
    if (!sent) {
      throw TimeoutError(str_format(
          "[ps.communicator] {} batches wait for the servers for {}",
          unsent_,
          duration_text(client_.options().timeout)));
    }
  }
  client_.flush();
}

void Communicator::stop() {
  flush();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (sender_.joinable()) {
    sender_.join();
  }
}

int Communicator::staleness() const {
  const std::lock_guard lock(mutex_);
  return staleness_;
}

int Communicator::max_staleness() const {
  const std::lock_guard lock(mutex_);
  return max_staleness_;
}

int Communicator::max_staleness_bound() const {
  switch (options_.mode) {
    case Mode::Sync:
      return 0;
    case Mode::Async:
      return options_.send_queue_size;
    case Mode::HalfAsync:
      return options_.num_threads;
    case Mode::Geo:
      return options_.k_steps;
  }
  return 0;
}

} // namespace argosy::ps
