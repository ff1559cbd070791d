#include "argosy/rpc/fan_out.h"

#include <algorithm>

namespace argosy::rpc {

FanOut::FanOut(std::vector<Call> calls)
    : calls_(std::move(calls)), left_(calls_.size()) {}

bool FanOut::await(Deadline deadline) {
  for (const Call& call : calls_) {
    if (!call->await(deadline)) {
      return false;
    }
  }
  collect();
  return true;
}

void FanOut::cancel() {
  for (const Call& call : calls_) {
    call->cancel();
  }
}

void FanOut::on_done(Callback callback) {
  FutureState::on_done(std::move(callback));
  if (calls_.empty()) {
    collect();
  }
  for (const Call& call : calls_) {
    call->on_done([this, self = shared_from_this()](const Result<Message>&) {
      if (--left_ == 0) {
        collect();
      }
    });
  }
}

void FanOut::collect() {
  const std::lock_guard lock(once_);
  if (collected_) {
    return;
  }
  collected_ = true;
  std::vector<Result<Message>> results;
  for (const Call& call : calls_) {
    results.push_back(std::move(call->result()));
  }
  complete(std::move(results));
}

} // namespace argosy::rpc
