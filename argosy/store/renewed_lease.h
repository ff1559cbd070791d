#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "argosy/store/kv.h"

namespace argosy::store {

// How a lease calls its store.
struct LeaseOperations {
  // Returns false if the store no longer knows the lease. Throws Error when it
  // cannot find out.
  std::function<bool(Deadline)> renew;
  std::function<void(Deadline)> revoke;
};

// A lease of a remote store, renewed by its own thread three times per ttl. If
// it could not be renewed for its ttl, it counts as lost, even if the store
// still has it.
class RenewedLease final : public Lease {
 public:
  // `owner` identifies the store that granted it; see lease_id().
  RenewedLease(
      std::int64_t id,
      std::chrono::milliseconds ttl,
      const void* owner,
      LeaseOperations operations);
  ~RenewedLease() override;

  bool alive() const override;

  // Does not throw: if the store cannot be told, the keys expire with the ttl.
  void release() override;

  // Stops renewing without telling the store, like a crash. For tests.
  void abandon();

  std::int64_t id() const { return id_; }
  const void* owner() const { return owner_; }

 private:
  void run();
  bool renew_once();

  // Returns whether this call stopped the thread.
  bool stop();

  const std::int64_t id_;
  const std::chrono::milliseconds ttl_;
  const void* const owner_;
  const LeaseOperations operations_;

  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false; // guarded by mutex_
  // Guarded by mutex_; known to be alive until then.
  Deadline::Clock::time_point known_;
  std::thread thread_;
};

// Throws InvalidArgument unless `ttl` is positive.
void check_ttl(std::chrono::milliseconds ttl);

// Returns the id of a lease that `owner` granted; 0 if `lease` is null. Throws
// InvalidArgument for a lease of another store.
std::int64_t lease_id(const Lease* lease, const void* owner);

} // namespace argosy::store
