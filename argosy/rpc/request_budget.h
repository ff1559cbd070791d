#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "argosy/rpc/connection.h"

namespace argosy::rpc {

// The memory of requests that are here, and of answers that are not sent yet.
// When it is used up, connections stop receiving until some is given back.
// Thread-safe.
class RequestBudget : public std::enable_shared_from_this<RequestBudget> {
 public:
  explicit RequestBudget(std::size_t limit) : limit_(limit) {}

  // Bytes that are given back when the last reference goes.
  class Charge {
   public:
    Charge(std::shared_ptr<RequestBudget> budget, std::size_t bytes)
        : budget_(std::move(budget)), bytes_(bytes) {}
    ~Charge() { budget_->give_back(bytes_); }
    Charge(const Charge&) = delete;
    Charge& operator=(const Charge&) = delete;

    // An answer takes the place of its request, however large it is.
    void change(std::size_t bytes);

   private:
    const std::shared_ptr<RequestBudget> budget_;
    std::size_t bytes_;
  };

  // Returns null if there is no room; `connection` is resumed when there is. A
  // request that is larger than the limit has to be alone.
  std::shared_ptr<Charge> take(
      std::size_t bytes, const std::weak_ptr<Connection>& connection);

  std::size_t used() const { return used_; }

 private:
  void give_back(std::size_t bytes);

  bool try_take(std::size_t bytes);

  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
  std::atomic<bool> somebody_waits_{false};
  std::mutex mutex_;
  std::vector<std::weak_ptr<Connection>> waiting_; // guarded by mutex_
};

} // namespace argosy::rpc
