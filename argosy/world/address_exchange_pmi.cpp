// Exchange through a process manager that speaks PMI-1.

#include <dlfcn.h>

#include <atomic>

#include "argosy/common/error.h"
#include "argosy/world/address_exchange_ways.h"
#include "argosy/world/pmi_client.h"

namespace argosy::world {

namespace {

// The MPI library in this process owns the connection, now or later: two
// clients on it would take each other's answers.
void check_no_mpi() {
  ARGOSY_CHECK(
      ::dlsym(RTLD_DEFAULT, "MPI_Init") == nullptr,
      "[world.exchange] the program has MPI linked in, which needs the PMI "
      "connection for itself: set MASTER_ADDR or ARGOSY_STORE");
}

// Taking leave ends the connection, and staying would look like a crash.
void check_first_use() {
  static std::atomic<bool> used = false;
  ARGOSY_CHECK(
      !used.exchange(true),
      "[world.exchange] PMI serves one exchange per process, and it is spent: "
      "set MASTER_ADDR or ARGOSY_STORE");
}

} // namespace

ExchangedAddress exchange_by_pmi(const AddressExchangeRequest& request) {
  check_no_mpi();
  check_first_use();
  ARGOSY_CHECK(
      request.value.find_first_of(" \n=") == std::string::npos,
      "[world.exchange] a value of {} bytes cannot travel over PMI: expected "
      "no "
      "spaces and no \"=\"",
      request.value.size()); // not the value, which may hold a secret
  PmiClient pmi(request.env, request.deadline);
  if (request.info.rank == 0) {
    pmi.put(request.key, request.value);
  }
  pmi.barrier();
  std::string value = pmi.get(request.key);
  pmi.close();
  return ExchangedAddress(std::move(value));
}

} // namespace argosy::world
