// Exchange through a PMIx server, which Open MPI's mpirun and `srun --mpi=pmix`
// run on every host. The library is loaded when it is needed, and may serve MPI
// in the same process, before or after.

#include <dlfcn.h>
#include <pmix.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/world/address_exchange_ways.h"

namespace argosy::world {

namespace {

class PmixLibrary {
 public:
  PmixLibrary() : handle_(::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL)) {
    ARGOSY_CHECK(
        handle_ != nullptr,
        "[world.exchange] cannot load PMIx: {}; set MASTER_ADDR or "
        "ARGOSY_STORE",
        ::dlerror());
  }

  template <typename Function>
  Function* find(const char* name) const {
    void* symbol = ::dlsym(handle_, name);
    ARGOSY_CHECK(
        symbol != nullptr, "[world.exchange] libpmix.so.2 has no ", name);
    return reinterpret_cast<Function*>(symbol);
  }

 private:
  void* handle_; // stays loaded: PMIx keeps threads
};

void check(const PmixLibrary& pmix, pmix_status_t status, const char* call) {
  if (status == PMIX_SUCCESS) {
    return;
  }
  const auto* text =
      pmix.find<decltype(PMIx_Error_string)>("PMIx_Error_string")(status);
  throw SystemError(str("[world.exchange] ", call, " failed: ", text));
}

#define ARGOSY_PMIX_CALL(pmix, name, ...) \
  check(pmix, pmix.find<decltype(name)>(#name)(__VA_ARGS__), #name)

// The connection to the server. It is made once and kept until the process
// ends: after the last PMIx_Finalize Open MPI could not start any more, and a
// process that ends without one counts as crashed. PMIx counts its users, so
// MPI's own init and finalize are none of our business.
class PmixSession {
 public:
  PmixSession() { ARGOSY_PMIX_CALL(library_, PMIx_Init, &own_, nullptr, 0); }
  ~PmixSession() {
    library_.find<decltype(PMIx_Finalize)>("PMIx_Finalize")(nullptr, 0);
  }
  PmixSession(const PmixSession&) = delete;
  PmixSession& operator=(const PmixSession&) = delete;

  const PmixLibrary& library() const { return library_; }
  const pmix_proc_t& own() const { return own_; }

 private:
  PmixLibrary library_;
  pmix_proc_t own_{};
};

// What the fence's callback, on a thread of PMIx, tells the waiting one.
struct Fence {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;                   // guarded by mutex
  pmix_status_t status = PMIX_SUCCESS; // guarded by mutex
};

void fence_done(pmix_status_t status, void* data) {
  const std::unique_ptr<std::shared_ptr<Fence>> fence(
      static_cast<std::shared_ptr<Fence>*>(data));
  const std::lock_guard lock((*fence)->mutex);
  (*fence)->status = status;
  (*fence)->done = true;
  (*fence)->changed.notify_all();
}

// The blocking fence knows no deadline that servers keep, hence the callback.
// It may come after the wait gave up: the fence is shared, not ours.
void wait_for_all(
    const PmixLibrary& pmix, const AddressExchangeRequest& request) {
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof(collect.key) - 1);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const auto fence = std::make_shared<Fence>();
  auto held = std::make_unique<std::shared_ptr<Fence>>(fence);
  ARGOSY_PMIX_CALL(
      pmix, PMIx_Fence_nb, nullptr, 0, &collect, 1, fence_done, held.get());
  held.release(); // NOLINT(bugprone-unused-return-value): fence_done owns it
  std::unique_lock lock(fence->mutex);
  const bool done = fence->changed.wait_until(
      lock, request.deadline.time(), [&] { return fence->done; });
  if (!done) {
    throw_no_value(request, "PMIx, where not all ranks arrived");
  }
  check(pmix, fence->status, "PMIx_Fence_nb");
}

void put(const PmixLibrary& pmix, const AddressExchangeRequest& request) {
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = const_cast<char*>(request.value.c_str());
  ARGOSY_PMIX_CALL(pmix, PMIx_Put, PMIX_GLOBAL, request.key.c_str(), &value);
  ARGOSY_PMIX_CALL(pmix, PMIx_Commit);
}

std::string get(
    const PmixLibrary& pmix,
    const AddressExchangeRequest& request,
    pmix_proc_t own) {
  own.rank = 0; // in our own name space
  pmix_info_t limit{};
  std::strncpy(limit.key, PMIX_TIMEOUT, sizeof(limit.key) - 1);
  limit.value.type = PMIX_INT;
  limit.value.data.integer =
      1 + static_cast<int>(request.deadline.remaining().count() / 1000);
  pmix_value_t* found = nullptr;
  ARGOSY_PMIX_CALL(
      pmix, PMIx_Get, &own, request.key.c_str(), &limit, 1, &found);
  const bool text = found->type == PMIX_STRING;
  std::string value = text ? found->data.string : "";
  if (text) {
    std::free(found->data.string);
  }
  std::free(found);
  return value;
}

} // namespace

ExchangedAddress exchange_by_pmix(const AddressExchangeRequest& request) {
  static const PmixSession session;
  const PmixLibrary& pmix = session.library();
  if (request.info.rank == 0) {
    put(pmix, request);
  }
  wait_for_all(pmix, request);
  return ExchangedAddress(get(pmix, request, session.own()));
}

} // namespace argosy::world
