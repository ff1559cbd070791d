#pragma once

#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/store/etcd_client.h"

namespace argosy::store {

// A value and the revision that wrote it.
struct EtcdValue {
  std::string value;
  std::int64_t revision = 0;
};

struct EtcdPair {
  std::string key;
  std::string value;
  std::int64_t revision = 0;
};

// The pairs of a range answer. These three throw StoreError for an answer that
// etcd would not send.
std::vector<EtcdPair> pairs_of(const nlohmann::json& range);

// Returns the first pair of a range answer, or nullopt.
std::optional<EtcdValue> first_value(const nlohmann::json& range);

// What a transaction's operation number `index` answered.
const nlohmann::json& response_of(
    const nlohmann::json& answer, std::size_t index, const char* name);

// Reads a 64-bit integer, which the gateway writes as a string and omits if 0.
std::int64_t int_field(const nlohmann::json& object, const char* name);

// Conditions on a key, given with its prefix.
nlohmann::json is_absent(const std::string& key);
nlohmann::json is_present(const std::string& key);
nlohmann::json has_value(const std::string& key, const std::string& value);
nlohmann::json has_revision(const std::string& key, std::int64_t revision);

// Operations on a key, given with its prefix. Lease 0: none.
nlohmann::json put(
    const std::string& key, const std::string& value, std::int64_t lease = 0);
nlohmann::json erasure(const std::string& key);

struct EtcdLease {
  std::int64_t id = 0;
  std::chrono::seconds ttl{0}; // as granted by etcd
};

EtcdLease new_lease(
    EtcdClient& client, std::chrono::seconds ttl, Deadline deadline);

// Renews a lease; returns false if etcd no longer knows it.
bool is_renewed(EtcdClient& client, std::int64_t lease, Deadline deadline);

// Changes keys exactly once, although EtcdClient may send a request several
// times.
//
// Every change is a transaction that also puts a *marker*, a key unique to the
// change, on the condition that it does not exist. If an answer is lost and the
// transaction is sent again, the condition fails, the marker is found, and the
// change counts as done. The marker costs no round trip; the next change
// deletes it in its own transaction. All markers are attached to one lease, so
// those of a client that died disappear. etcd restarts leases at full length
// when a new leader takes over, so markers survive an outage of etcd.
class EtcdTxn {
 public:
  explicit EtcdTxn(EtcdClient& client);

  struct Outcome {
    bool applied = false;
    std::optional<EtcdValue> now; // value of the key, if not applied
  };

  // One change. Its tries, with any conditions and operations, share a marker,
  // so at most one is applied.
  class Change {
   public:
    explicit Change(EtcdTxn& txn);
    ~Change();

    // Applies `operation` if `conditions` hold; otherwise returns the value of
    // `key`.
    Outcome apply(
        const std::string& key,
        const std::vector<nlohmann::json>& conditions,
        const nlohmann::json& operation,
        Deadline deadline);

   private:
    Outcome apply_once(
        const std::string& key,
        const std::vector<nlohmann::json>& conditions,
        const nlohmann::json& operation,
        Deadline deadline);

    EtcdTxn& txn_;
    const std::string marker_;
    const std::string stale_; // an older marker to delete; may be empty
    bool marker_may_exist_ = false;
    bool stale_may_exist_ = true;
  };

 private:
  std::string new_marker();
  std::string take_stale();
  std::int64_t marker_lease(Deadline deadline);
  void forget_lease();

  EtcdClient& client_;
  const std::string id_; // random id of this client

  std::mutex mutex_;
  std::uint64_t num_markers_ = 0;        // guarded by mutex_
  std::vector<std::string> stale_;       // guarded by mutex_
  std::int64_t lease_ = 0;               // guarded by mutex_; 0: none
  Deadline::Clock::time_point renew_at_; // guarded by mutex_
};

} // namespace argosy::store
