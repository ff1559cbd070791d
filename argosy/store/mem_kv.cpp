#include "argosy/store/mem_kv.h"

#include <condition_variable>
#include <mutex>

#include "argosy/common/error.h"
#include "argosy/store/error_text.h"
#include "argosy/store/kv_table.h"
#include "argosy/store/renewed_lease.h"

namespace argosy::store {

struct MemState {
  // Locks; throws if the store was aborted.
  std::unique_lock<std::mutex> enter() {
    std::unique_lock lock(mutex);
    throw_if_aborted();
    return lock;
  }

  void throw_if_aborted() const {
    if (aborted) {
      throw PeerLost(*aborted);
    }
  }

  std::mutex mutex;
  std::condition_variable written;
  KvTable table;                      // guarded by mutex
  std::optional<std::string> aborted; // guarded by mutex
};

namespace {

class MemLease final : public Lease {
 public:
  MemLease(std::shared_ptr<MemState> state, std::int64_t id)
      : state_(std::move(state)), id_(id) {}
  ~MemLease() override { release(); }

  // The methods of a lease do not enter(): release() runs in destructors and
  // must not throw after an abort.
  bool alive() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->table.has_lease(id_);
  }

  void release() override {
    const std::lock_guard lock(state_->mutex);
    state_->table.revoke(id_);
  }

  // The id of `lease` in the table of `state`; 0 without a lease.
  static std::int64_t number(
      const Lease* lease, const std::shared_ptr<MemState>& state) {
    const auto* own = dynamic_cast<const MemLease*>(lease);
    ARGOSY_CHECK(
        lease == nullptr || (own != nullptr && own->state_ == state),
        "[store.set] the lease was granted by another store");
    return own == nullptr ? 0 : own->id_;
  }

 private:
  const std::shared_ptr<MemState> state_;
  const std::int64_t id_;
};

} // namespace

MemKv::MemKv() : state_(std::make_shared<MemState>()) {}

MemKv::~MemKv() = default;

std::shared_ptr<MemKv> MemKv::named(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<MemKv>> stores;
  const std::lock_guard lock(mutex);
  std::erase_if(
      stores, [](const auto& entry) { return entry.second.expired(); });
  auto store = stores[name].lock();
  if (store == nullptr) {
    store = std::make_shared<MemKv>();
    stores[name] = store;
  }
  return store;
}

void MemKv::abort(const std::string& reason) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->aborted) {
    state_->aborted = reason;
  }
  state_->written.notify_all();
}

void MemKv::set(
    const std::string& key,
    const std::string& value,
    Deadline /*deadline*/,
    const Lease* lease) {
  const auto number = MemLease::number(lease, state_);
  const auto lock = state_->enter();
  state_->table.set(key, value, number);
  state_->written.notify_all();
}

std::optional<std::string> MemKv::get(
    const std::string& key, Deadline /*deadline*/) {
  const auto lock = state_->enter();
  return state_->table.get(key);
}

std::int64_t MemKv::add(
    const std::string& key, std::int64_t amount, Deadline /*deadline*/) {
  const auto lock = state_->enter();
  const std::int64_t sum = state_->table.add(key, amount);
  state_->written.notify_all();
  return sum;
}

CompareSet MemKv::compare_set(
    const std::string& key,
    const std::optional<std::string>& expected,
    const std::string& desired,
    Deadline /*deadline*/) {
  const auto lock = state_->enter();
  auto result = state_->table.compare_set(key, expected, desired);
  state_->written.notify_all();
  return result;
}

void MemKv::wait(const std::vector<std::string>& keys, Deadline deadline) {
  auto lock = state_->enter();
  TableWait wait(keys);
  // Every write wakes all waiters, which then look for their own keys.
  const bool ended = state_->written.wait_until(lock, deadline.time(), [&] {
    return state_->aborted || wait.done(state_->table);
  });
  state_->throw_if_aborted();
  if (!ended) {
    throw TimeoutError(missing_text(state_->table.missing(keys), deadline));
  }
}

// Notifies nobody: waits are for keys that appear.
bool MemKv::erase(const std::string& key, Deadline /*deadline*/) {
  const auto lock = state_->enter();
  return state_->table.erase(key);
}

std::map<std::string, std::string> MemKv::list(
    const std::string& prefix, Deadline /*deadline*/) {
  const auto lock = state_->enter();
  return state_->table.list(prefix);
}

std::unique_ptr<Lease> MemKv::grant(
    std::chrono::milliseconds ttl, Deadline /*deadline*/) {
  check_ttl(ttl);
  const auto lock = state_->enter();
  const auto id = state_->table.grant(ttl, Deadline::Clock::now());
  return std::make_unique<MemLease>(state_, id);
}

} // namespace argosy::store
