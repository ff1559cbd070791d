#include "argosy/world/address_exchange.h"

#include <atomic>

#include "argosy/common/error.h"
#include "argosy/world/address_exchange_ways.h"

namespace argosy {

ExchangedAddress::~ExchangedAddress() {
  if (withdraw_) {
    withdraw_();
  }
}

ExchangedAddress::ExchangedAddress(ExchangedAddress&& other) noexcept
    : value_(std::move(other.value_)),
      withdraw_(std::exchange(other.withdraw_, nullptr)) {}

namespace world {

void throw_no_value(
    const AddressExchangeRequest& request, const std::string& where) {
  throw TimeoutError(str_format(
      "[world.exchange] rank 0 of {} published no address within {}, looked in "
      "{}; rank {}",
      request.info.size,
      request.deadline.limit_text(),
      where,
      request.info.rank));
}

namespace {

// A process may join several worlds in turn. The job's names are the process's
// too, so each exchange takes the next one: a late reader of the second must
// not find the value of the first.
std::string next_key() {
  static std::atomic<int> count = 0;
  return str("argosy-", count++);
}

} // namespace

} // namespace world

ExchangedAddress exchange_address(
    const LaunchInfo& info,
    const std::string& value_of_rank0,
    Deadline deadline) {
  const Environment env = Environment::of_process();
  const world::AddressExchangeRequest request{
      info, env, world::next_key(), value_of_rank0, deadline};
  switch (info.address_exchange) {
    case AddressExchange::LocalFile:
      return world::exchange_by_file(request);
    case AddressExchange::Pmi:
      return world::exchange_by_pmi(request);
    case AddressExchange::Pmix:
      return world::exchange_by_pmix(request);
    case AddressExchange::None:
      break;
  }
  throw InvalidArgument(
      str("[world.exchange] ", info, ": this world has no exchange"));
}

} // namespace argosy
