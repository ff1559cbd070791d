#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "argosy/store/kv.h"

namespace argosy::store {

// How a KeptLease speaks to its store.
struct LeaseVerbs {
  // False: the store has forgotten the lease. Throws Error when it cannot tell.
  std::function<bool(Deadline)> renew;
  std::function<void(Deadline)> revoke;
};

// A lease of a remote store: its own thread renews it three times per ttl. A
// lease that could not be renewed for its ttl counts as lost, even if the store
// comes back with it.
class KeptLease final : public Lease {
 public:
  // `owner` says which store granted it: see lease_id().
  KeptLease(
      std::int64_t id,
      std::chrono::milliseconds ttl,
      const void* owner,
      LeaseVerbs verbs);
  ~KeptLease() override;

  bool alive() const override;

  // Does not throw: when the store cannot be told, the keys go with the ttl.
  void release() override;

  // Stops renewing and tells nobody, as a crash does. For tests.
  void abandon();

  std::int64_t id() const { return id_; }
  const void* owner() const { return owner_; }

 private:
  void run();
  bool renew_once();

  // Whether this call stopped it.
  bool stop();

  const std::int64_t id_;
  const std::chrono::milliseconds ttl_;
  const void* const owner_;
  const LeaseVerbs verbs_;

  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;              // guarded by mutex_
  Deadline::Clock::time_point known_; // guarded by mutex_; alive until then
  std::thread thread_;
};

// Throws InvalidArgument unless it is positive.
void check_ttl(std::chrono::milliseconds ttl);

// The id of a lease that `owner` granted; 0 without a lease. Throws
// InvalidArgument for a lease of another store.
std::int64_t lease_id(const Lease* lease, const void* owner);

} // namespace argosy::store
