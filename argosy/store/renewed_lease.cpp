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
    LeaseTerms terms, const void* owner, LeaseOperations operations)
    : id_(terms.id),
      ttl_(terms.ttl),
      owner_(owner),
      operations_(std::move(operations)),
      known_(terms.asked + terms.ttl),
      thread_(start_background(
          [this](Background::Sleeper& sleeper) { run(sleeper); })) {}

RenewedLease::~RenewedLease() {
  release();
}

bool RenewedLease::alive() const {
  const std::lock_guard lock(mutex_);
  return !stopped_ && time_now() < known_;
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
  thread_->stop();
  return true;
}

// Runs on the thread of the lease. Ends by itself when the lease may have
// expired.
void RenewedLease::run(Background::Sleeper& sleeper) {
  auto next = time_now() + ttl_ / 4;
  while (alive() && sleeper.sleep_until(next)) {
    const auto now = time_now();
    next = now + ttl_ / 4;
    renew(now);
  }
}

void RenewedLease::renew(Timeline::TimePoint now) {
  try {
    const bool renewed =
        operations_.renew(Deadline::after(std::min(ttl_ / 4, kLongestTry)));
    // Counts from the request, not the answer: the server may have renewed at
    // any time between, and alive() must never be true for too long. If it has
    // dropped the lease and its keys, this ends run(), too.
    learn(renewed ? now + ttl_ : Timeline::TimePoint::min());
  } catch (const Error& error) {
    log::debug("[store.lease] not renewed: ", error.what());
  }
}

void RenewedLease::learn(Timeline::TimePoint known) {
  const std::lock_guard lock(mutex_);
  known_ = known;
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
