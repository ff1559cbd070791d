#pragma once

#include <string>

#include "argosy/common/deadline.h"
#include "argosy/common/environment.h"
#include "argosy/world/address_exchange.h"

// The ways to exchange the address of rank 0, one file each.
namespace argosy::world {

struct AddressExchangeRequest {
  const LaunchInfo& info;
  const Environment& env;
  std::string key;   // of this exchange in this job; letters, digits, '-', '.'
  std::string value; // of rank 0
  Deadline deadline;
};

ExchangedAddress exchange_by_file(const AddressExchangeRequest& request);
ExchangedAddress exchange_by_pmi(const AddressExchangeRequest& request);
ExchangedAddress exchange_by_pmix(const AddressExchangeRequest& request);

// What rank 0 did not do in time.
[[noreturn]] void throw_no_value(
    const AddressExchangeRequest& request, const std::string& where);

} // namespace argosy::world
