#pragma once

#include <functional>
#include <string>
#include <utility>

#include "argosy/common/deadline.h"
#include "argosy/world/launch_info.h"

namespace argosy {

// The value that rank 0 published, and what has to stay while others may still
// ask for it. Keep it until all ranks are known to have the value, for instance
// until they met in the store.
class ExchangedAddress {
 public:
  explicit ExchangedAddress(
      std::string value, std::function<void()> withdraw = nullptr)
      : value_(std::move(value)), withdraw_(std::move(withdraw)) {}
  ~ExchangedAddress();
  ExchangedAddress(ExchangedAddress&& other) noexcept;
  ExchangedAddress& operator=(ExchangedAddress&&) = delete;

  const std::string& value() const { return value_; }

 private:
  std::string value_;
  std::function<void()> withdraw_; // must not throw; null: nothing to do
};

// Rank 0 publishes `value_of_rank0`, such as "host:port", and every rank
// returns it. All ranks must call it, equally often; other ranks' argument is
// ignored. Blocks until the value is there. Goes the way of
// `info.address_exchange`, which must not be None.
//
// Pmi takes the connection to the process manager for itself: it works once per
// process, and not in a program that has MPI linked in.
//
// Throws TimeoutError when rank 0 does not publish before the deadline,
// InvalidArgument when there is nothing to exchange through, SystemError when
// the process manager or the file system refuses.
[[nodiscard]] ExchangedAddress exchange_address(
    const LaunchInfo& info,
    const std::string& value_of_rank0,
    Deadline deadline);

} // namespace argosy
