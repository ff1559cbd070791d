#pragma once

#include <optional>
#include <string>
#include <string_view>

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

// What rank 0 writes into the file of exchange_by_file().
struct ExchangeNote {
  std::string run_id;
  int pid = 0; // of rank 0
  std::string start_time;
  std::string value;
};

// nullopt for anything else: the file may be half written, or another's.
std::optional<ExchangeNote> parse_exchange_note(std::string_view content);

// What rank 0 did not do in time.
[[noreturn]] void throw_no_value(
    const AddressExchangeRequest& request, const std::string& where);

} // namespace argosy::world
