#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "argosy/rpc/future.h"
#include "argosy/rpc/message.h"

namespace argosy::rpc {

// Many calls as one: done when all are.
class FanOut : public FutureState<std::vector<Result<Message>>> {
 public:
  using Call = std::shared_ptr<FutureState<Message>>;

  explicit FanOut(std::vector<Call> calls);

  bool await(Deadline deadline) override;
  void cancel() override;
  void on_done(Callback callback) override;

 private:
  void collect();

  const std::vector<Call> calls_;
  std::atomic<std::size_t> left_;
  std::mutex once_;
  bool collected_ = false; // guarded by once_
};

} // namespace argosy::rpc
