#include "argosy/store/renewed_lease.h"

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::store {

namespace {

// Limits one try, and so how long stopping waits for the thread.
constexpr std::chrono::milliseconds kLongestTry(2000);

} // namespace

RenewedLease::RenewedLease(
    std::int64_t id,
    std::chrono::milliseconds ttl,
    const void* owner,
    LeaseOperations operations)
    : id_(id),
      ttl_(ttl),
      owner_(owner),
      operations_(std::move(operations)),
      known_(Deadline::Clock::now() + ttl),
      thread_([this] { run(); }) {}

RenewedLease::~RenewedLease() {
  release();
}

bool RenewedLease::alive() const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && Deadline::Clock::now() < known_;
}

// Stops the thread first, so that no renewal follows the revocation.
void RenewedLease::release() {
  if (!stop()) {
    return;
  }
  try {
    operations_.revoke(Deadline::after(std::min(ttl_, kLongestTry)));
  } catch (const Error& error) {
    log::debug("[store.lease] not released: ", error.what());
  }
}

void RenewedLease::abandon() {
  stop();
}

bool RenewedLease::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      return false;
    }
    stopped_ = true;
  }
  // Joins without the lock, which run() needs to end.
  stopping_.notify_all();
  thread_.join();
  return true;
}

// Runs on the thread of the lease. Three tries fit into a ttl, so that one or
// two lost requests do no harm. Ends by itself when the lease may have expired.
void RenewedLease::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_ && Deadline::Clock::now() < known_) {
    stopping_.wait_for(lock, ttl_ / 3, [this] { return stopped_; });
    if (stopped_) {
      return;
    }
    lock.unlock();
    const auto asked = Deadline::Clock::now();
    const bool renewed = renew_once();
    lock.lock();
    if (renewed) {
      // Counts from the request, not the answer: the server may have renewed at
      // any time between, and alive() must never be true for too long.
      known_ = asked + ttl_;
    }
  }
}

// Renews; returns whether the lease is certain to live for another ttl.
bool RenewedLease::renew_once() {
  try {
    const bool renewed =
        operations_.renew(Deadline::after(std::min(ttl_ / 3, kLongestTry)));
    if (!renewed) {
      const std::lock_guard lock(mutex_);
      // The store has dropped the lease and its keys; ends run(), too.
      known_ = Deadline::Clock::time_point::min();
    }
    return renewed;
  } catch (const Error& error) {
    log::debug("[store.lease] not renewed: ", error.what());
    return false;
  }
}

void check_ttl(std::chrono::milliseconds ttl) {
  ARGOSY_CHECK(
      ttl.count() > 0, "[store.grant] ttl {} ms, expected > 0", ttl.count());
}

std::int64_t lease_id(const Lease* lease, const void* owner) {
  const auto* own = dynamic_cast<const RenewedLease*>(lease);
  ARGOSY_CHECK(
      lease == nullptr || (own != nullptr && own->owner() == owner),
      "[store.set] the lease was granted by another store");
  return own == nullptr ? 0 : own->id();
}

} // namespace argosy::store
