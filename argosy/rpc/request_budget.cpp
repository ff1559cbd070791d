#include "argosy/rpc/request_budget.h"

namespace argosy::rpc {

void RequestBudget::Charge::change(std::size_t bytes) {
  if (bytes < bytes_) {
    budget_->give_back(bytes_ - bytes);
  } else {
    const std::lock_guard lock(budget_->mutex_);
    budget_->used_ += bytes - bytes_;
  }
  bytes_ = bytes;
}

std::shared_ptr<RequestBudget::Charge> RequestBudget::take(
    std::size_t bytes, const std::shared_ptr<Connection>& connection) {
  {
    const std::lock_guard lock(mutex_);
    if (used_ > 0 && (used_ > limit_ || bytes > limit_ - used_)) {
      waiting_.push_back(connection);
      return nullptr;
    }
    used_ += bytes;
  }
  return std::make_shared<Charge>(shared_from_this(), bytes);
}

void RequestBudget::give_back(std::size_t bytes) {
  std::vector<std::weak_ptr<Connection>> waiting;
  {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    waiting.swap(waiting_);
  }
  for (const auto& waiter : waiting) {
    if (const auto connection = waiter.lock()) {
      connection->resume();
    }
  }
}

std::size_t RequestBudget::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

} // namespace argosy::rpc
