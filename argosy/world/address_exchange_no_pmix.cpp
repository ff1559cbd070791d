// Stands in for exchange_pmix.cpp where PMIx's headers were not found.

#include "argosy/common/error.h"
#include "argosy/world/address_exchange_ways.h"

namespace argosy::world {

ExchangedAddress exchange_by_pmix(const AddressExchangeRequest&) {
  throw InvalidArgument(
      "[world.exchange] Argosy was built without PMIx (Debian: libpmix-dev): "
      "set MASTER_ADDR or ARGOSY_STORE");
}

} // namespace argosy::world
