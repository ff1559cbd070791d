#pragma once

#include <string>

#include "argosy/common/deadline.h"
#include "argosy/common/environment.h"
#include "argosy/world/exchange.h"

// The ways to exchange, one file each.
namespace argosy::world {

struct ExchangeRequest {
  const LaunchInfo& info;
  const Environment& env;
  std::string key;   // of this exchange in this job; letters, digits, '-', '.'
  std::string value; // of rank 0
  Deadline deadline;
};

Exchanged exchange_by_file(const ExchangeRequest& request);
Exchanged exchange_by_pmi(const ExchangeRequest& request);
Exchanged exchange_by_pmix(const ExchangeRequest& request);

// What rank 0 did not do in time.
[[noreturn]] void throw_no_value(
    const ExchangeRequest& request, const std::string& where);

} // namespace argosy::world
