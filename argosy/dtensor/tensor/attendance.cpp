#include "argosy/dtensor/tensor/attendance.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/common/environment.h"
#include "argosy/common/log.h"
#include "argosy/common/text.h"
#include "argosy/common/warning_time.h"
#include "argosy/world/world.h"

namespace argosy::dtensor {

namespace {

std::string key_of(const std::vector<int>& ranks, long number) {
  return str("dtensor/waits/", ranges_text(ranks), "/", number, "/");
}

std::string rank_text(const std::vector<int>& ranks) {
  return str(ranks.size() == 1 ? "rank " : "ranks ", ranges_text(ranks));
}

} // namespace

Attendance::Attendance(
    c10::intrusive_ptr<c10d::Store> store,
    int rank,
    std::chrono::milliseconds patience)
    : store_(std::move(store)),
      rank_(rank),
      patience_(patience),
      thread_([this] { watch(); }) {}

Attendance::~Attendance() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Attendance::Call::Call(
    Attendance& attendance, std::vector<int> ranks, std::string what)
    : attendance_(attendance) {
  const std::lock_guard lock(attendance_.mutex_);
  const long number = attendance_.numbers_[ranks]++;
  attendance_.waiting_ = Waiting{
      std::move(ranks),
      std::move(what),
      number,
      std::chrono::steady_clock::now()};
}

Attendance::Call::~Call() {
  const std::lock_guard lock(attendance_.mutex_);
  attendance_.waiting_.reset();
}

std::string Attendance::warned_key(const std::vector<int>& ranks, long number) {
  return key_of(ranks, number) + "warned";
}

// Looks twice in the time of its patience, instead of being woken by calls,
// which are many and short.
void Attendance::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, patience_ / 2, [&] { return ends_; })) {
    if (!waiting_ || waiting_->steps == 2 ||
        std::chrono::steady_clock::now() - waiting_->since < patience_) {
      continue;
    }
    const Waiting now = *waiting_;
    ++waiting_->steps;
    lock.unlock();
    try {
      act(now);
    } catch (const std::exception&) {
      // The store is gone, as is the reason to warn.
    }
    lock.lock();
  }
}

// First it tells that it waits; the next time it looks who told the same, so
// that ranks that wait, too, had the time to.
void Attendance::act(Waiting waiting) {
  const std::string key = key_of(waiting.ranks, waiting.number);
  if (waiting.steps == 0) {
    store_->set(str(key, rank_), std::vector<std::uint8_t>{1});
    return;
  }
  std::vector<int> missing;
  for (const int rank : waiting.ranks) {
    if (!store_->check({str(key, rank)})) {
      missing.push_back(rank);
    }
  }
  const std::string warned = warned_key(waiting.ranks, waiting.number);
  if (missing.empty() || store_->add(warned, 1) != 1) {
    return;
  }
  log::warn(
      "[dtensor.item] rank {} has been waiting for {} for {}: {} needs all of "
      "ranks {}, and these have not called it. Call it on all of them",
      rank_,
      rank_text(missing),
      duration_text(std::chrono::steady_clock::now() - waiting.since),
      waiting.what,
      ranges_text(waiting.ranks));
}

std::shared_ptr<Attendance> attendance() {
  const auto world = current_world();
  if (!world) {
    return nullptr;
  }
  return world->attached<Attendance>([&]() -> std::shared_ptr<Attendance> {
    const auto patience =
        warning_time(Environment::of_process(), "ARGOSY_ITEM_WARNING", "5");
    return patience.count() == 0
        ? nullptr
        : std::make_shared<Attendance>(world->store(), world->rank(), patience);
  });
}

} // namespace argosy::dtensor
