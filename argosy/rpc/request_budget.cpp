#include "argosy/rpc/request_budget.h"

namespace argosy::rpc {

void RequestBudget::Charge::change(std::size_t bytes) {
  if (bytes < bytes_) {
    budget_->give_back(bytes_ - bytes);
  } else {
    budget_->used_ += bytes - bytes_;
  }
  bytes_ = bytes;
}

bool RequestBudget::try_take(std::size_t bytes) {
  std::size_t used = used_;
  do {
    if (used > 0 && (used > limit_ || bytes > limit_ - used)) {
      return false;
    }
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

// Who gives back looks for those who wait afterwards; so we say that we wait
// before we try a last time. One of the two sees the other.
std::shared_ptr<RequestBudget::Charge> RequestBudget::take(
    std::size_t bytes, const std::weak_ptr<Connection>& connection) {
  if (!try_take(bytes)) {
    const std::lock_guard lock(mutex_);
    somebody_waits_ = true;
    if (!try_take(bytes)) {
      waiting_.push_back(connection);
      return nullptr;
    }
  }
  return std::make_shared<Charge>(shared_from_this(), bytes);
}

void RequestBudget::give_back(std::size_t bytes) {
  used_ -= bytes;
  if (!somebody_waits_) {
    return;
  }
  std::vector<std::weak_ptr<Connection>> waiting;
  {
    const std::lock_guard lock(mutex_);
    somebody_waits_ = false;
    waiting.swap(waiting_);
  }
  for (const auto& waiter : waiting) {
    if (const auto connection = waiter.lock()) {
      connection->resume();
    }
  }
}

} // namespace argosy::rpc
