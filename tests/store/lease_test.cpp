// A lease whose store does not answer.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/store/renewed_lease.h"
#include "tests/store/expect.h"

namespace argosy::store {
namespace {

using namespace std::chrono_literals;

// A call of the store that returns when the test says so, or after 10 s.
class HeldCall {
 public:
  void enter() {
    std::unique_lock lock(mutex_);
    entered_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, 10s, [&] { return open_; });
  }
  bool await_entered() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [&] { return entered_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool entered_ = false; // guarded by mutex_
  bool open_ = false;    // guarded by mutex_
};

// Launchers ask whether their lease is alive in the loop that sees signals and
// deaths: a store that hangs must not hold them up.
TEST(Lease, CanBeAskedWhileItsRenewalHangs) {
  HeldCall call;
  RenewedLease lease(
      {.id = 1, .ttl = 2s, .asked = time_now()},
      nullptr,
      {.renew =
           [&](Deadline) {
             call.enter();
             return true;
           },
       .revoke = [](Deadline) {}});
  ASSERT_TRUE(call.await_entered());
  const auto began = std::chrono::steady_clock::now();
  lease.alive();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
  call.let_go();
}

// Whatever the store may still think.
TEST(Lease, IsLostWhenItCouldNotBeRenewedForItsTime) {
  RenewedLease lease(
      {.id = 1, .ttl = 200ms, .asked = time_now()},
      nullptr,
      {.renew = [](Deadline) -> bool { throw TimeoutError("no answer"); },
       .revoke = [](Deadline) {}});
  const auto limit = argosy::testing::soon();
  while (lease.alive() && !limit.expired()) {
    sleep_for(10ms);
  }
  EXPECT_FALSE(lease.alive());
}

} // namespace
} // namespace argosy::store
