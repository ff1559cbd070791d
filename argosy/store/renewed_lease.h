#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "argosy/common/timeline.h"
#include "argosy/store/kv.h"

namespace argosy::store {

// How a lease calls its store.
struct LeaseOperations {
  // Returns false if the store no longer knows the lease. Throws Error when it
  // cannot find out.
  std::function<bool(Deadline)> renew;
  std::function<void(Deadline)> revoke;
};

// What a store granted.
struct LeaseTerms {
  std::int64_t id = 0;
  std::chrono::milliseconds ttl{0};
  // When the store was asked: the ttl counts from then, because the store may
  // have granted long before its answer came.
  Timeline::TimePoint asked;
};

// A lease of a remote store, renewed by its own thread. A try starts every
// quarter of the ttl and may take as long, so that three tries fit into a ttl
// even if each waits for an answer in vain. If it could not be renewed for its
// ttl, it counts as lost, even if the store still has it.
class RenewedLease final : public Lease {
 public:
  // `owner` identifies the store that granted it; see lease_id().
  RenewedLease(LeaseTerms terms, const void* owner, LeaseOperations operations);
  ~RenewedLease() override;

  bool alive() const override;

  // Does not throw: if the store cannot be told, the keys expire with the ttl.
  void release() override;

  // Stops renewing without telling the store, like a crash. For tests.
  void abandon();

  std::int64_t id() const { return id_; }
  const void* owner() const { return owner_; }

 private:
  void run(Background::Sleeper& sleeper);
  void renew(Timeline::TimePoint now);
  void learn(Timeline::TimePoint known);

  // Returns whether this call stopped the thread.
  bool stop();

  const std::int64_t id_;
  const std::chrono::milliseconds ttl_;
  const void* const owner_;
  const LeaseOperations operations_;

  mutable std::mutex mutex_;  // never held across a call of the store
  bool stopped_ = false;      // guarded by mutex_
  Timeline::TimePoint known_; // guarded by mutex_; known to live until then
  std::unique_ptr<Background> thread_; // last: it uses the others
};

// Throws InvalidArgument unless `ttl` is positive.
void check_ttl(std::chrono::milliseconds ttl);

// Returns the id of a lease that `owner` granted; 0 if `lease` is null. Throws
// InvalidArgument for a lease of another store.
std::int64_t lease_id(const Lease* lease, const void* owner);

} // namespace argosy::store
