#include "argosy/store/etcd_kv.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/timeline.h"
#include "argosy/store/base64.h"
#include "argosy/store/counter.h"
#include "argosy/store/error_text.h"
#include "argosy/store/etcd_client.h"
#include "argosy/store/etcd_txn.h"
#include "argosy/store/renewed_lease.h"

namespace argosy::store {

namespace {

using nlohmann::json;

// etcd's default limit is 128 operations per transaction.
constexpr std::size_t kKeysPerRead = 100;

// Watches are renewed, in case the connection died silently.
constexpr std::chrono::seconds kLongestWatch(60);

// The end of the key range with this prefix, in etcd's form: the prefix plus
// one.
std::string range_end(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') {
    prefix.pop_back();
  }
  if (prefix.empty()) {
    // etcd's sign for "up to the last key".
    return std::string(1, '\0');
  }
  ++prefix.back();
  return prefix;
}

LeaseOperations operations_of(
    const std::shared_ptr<EtcdClient>& client, std::int64_t id) {
  const auto renew = [client, id](Deadline deadline) {
    return is_renewed(*client, id, deadline);
  };
  const auto revoke = [client, id](Deadline deadline) {
    try {
      client->call("lease/revoke", {{"ID", std::to_string(id)}}, deadline);
    } catch (const EtcdRefused&) {
      // Already revoked by a try whose answer was lost.
    }
  };
  return {renew, revoke};
}

} // namespace

class EtcdKv::Impl {
 public:
  Impl(
      const std::vector<Endpoint>& endpoints,
      const std::string& prefix,
      const EtcdAccess& access)
      : client(std::make_shared<EtcdClient>(endpoints, access)),
        txn(*client),
        root(prefix + "/") {}

  struct Missing {
    std::vector<std::string> keys;
    std::int64_t revision = 0; // at which the first key was missing
  };

  Missing missing(const std::vector<std::string>& keys, Deadline deadline);
  std::string await_put(
      const std::string& key, std::int64_t after, Deadline deadline);

  const std::shared_ptr<EtcdClient> client; // shared with leases
  EtcdTxn txn;
  const std::string root;
};

// Reads keys in batches and returns those that are absent, with the revision of
// the batch that held the first of them. A watch of that key from the next
// revision on then misses no put, even one that happens before the watch
// exists.
EtcdKv::Impl::Missing EtcdKv::Impl::missing(
    const std::vector<std::string>& keys, Deadline deadline) {
  Missing result;
  for (std::size_t begin = 0; begin < keys.size(); begin += kKeysPerRead) {
    const std::size_t end = std::min(begin + kKeysPerRead, keys.size());
    json reads = json::array();
    for (std::size_t i = begin; i < end; ++i) {
      const json range = {
          {"key", base64_encode(root + keys[i])}, {"keys_only", true}};
      reads.push_back({{"request_range", range}});
    }
    const json answer = client->call("kv/txn", {{"success", reads}}, deadline);
    if (result.keys.empty()) {
      result.revision = int_field(answer.value("header", json()), "revision");
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!first_value(response_of(answer, i - begin, "response_range"))) {
        result.keys.push_back(keys[i]);
      }
    }
  }
  return result;
}

// Blocks until `key` may have been put after that revision. Returns "", or why
// the watch failed.
std::string EtcdKv::Impl::await_put(
    const std::string& key, std::int64_t after, Deadline deadline) {
  const json request = {
      {"create_request",
       {{"key", base64_encode(root + key)},
        {"start_revision", std::to_string(after + 1)},
        {"filters", {"NODELETE"}}}}};
  const auto on_message = [](const json& message) {
    // A message without events says that the watch was created or cancelled.
    const auto cancelled = message.find("canceled");
    return !message.contains("events") &&
        (cancelled == message.end() || *cancelled == false);
  };
  return client->stream(
      "watch", request, deadline.earlier(kLongestWatch), on_message);
}

EtcdKv::EtcdKv(
    const std::vector<Endpoint>& endpoints,
    const std::string& prefix,
    const EtcdAccess& access) {
  ARGOSY_CHECK(
      !prefix.empty(), "[store.etcd] the prefix is empty, expected a name");
  impl_ = std::make_unique<Impl>(endpoints, prefix, access);
}

EtcdKv::~EtcdKv() = default;

void EtcdKv::ping(Deadline deadline) {
  impl_->client->resolve_any(deadline);
  impl_->client->call(
      "kv/range", {{"key", base64_encode(impl_->root)}}, deadline);
}

void EtcdKv::set(
    const std::string& key,
    const std::string& value,
    Deadline deadline,
    const Lease* lease) {
  const auto id = lease_id(lease, impl_->client.get());
  const std::string full = impl_->root + key;
  EtcdTxn::Change(impl_->txn).apply(full, {}, put(full, value, id), deadline);
}

std::optional<std::string> EtcdKv::get(
    const std::string& key, Deadline deadline) {
  const auto found = first_value(impl_->client->call(
      "kv/range", {{"key", base64_encode(impl_->root + key)}}, deadline));
  return found ? std::optional(found->value) : std::nullopt;
}

std::int64_t EtcdKv::add(
    const std::string& key, std::int64_t amount, Deadline deadline) {
  const std::string full = impl_->root + key;
  EtcdTxn::Change change(impl_->txn);
  // Guesses that the key is absent; a wrong guess returns its value.
  std::optional<EtcdValue> held;
  for (;;) {
    // Optimistic: writes only if the key did not change since it was read.
    // Compares revisions, which never repeat, unlike values.
    const std::int64_t sum = counter_sum(
        key, held ? std::optional(held->value) : std::nullopt, amount);
    const json unchanged =
        held ? has_revision(full, held->revision) : is_absent(full);
    auto outcome = change.apply(
        full, {unchanged}, put(full, std::to_string(sum)), deadline);
    if (outcome.applied) {
      return sum;
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[store.add] others kept changing key {} for {}",
          quoted_bytes(key),
          deadline.limit_text()));
    }
    held = std::move(outcome.now);
  }
}

CompareSet EtcdKv::compare_set(
    const std::string& key,
    const std::optional<std::string>& expected,
    const std::string& desired,
    Deadline deadline) {
  const std::string full = impl_->root + key;
  const json holds = expected ? has_value(full, *expected) : is_absent(full);
  auto outcome = EtcdTxn::Change(impl_->txn)
                     .apply(full, {holds}, put(full, desired), deadline);
  if (outcome.applied) {
    return {true, desired};
  }
  return {
      false,
      outcome.now ? std::optional(std::move(outcome.now->value))
                  : std::nullopt};
}

// Reads all keys, watches the first absent one, and reads again those that were
// absent. One watch at a time suffices, since all keys must come anyway. Costs
// about a watch and a read per key, and less if several keys come meanwhile.
void EtcdKv::wait(const std::vector<std::string>& keys, Deadline deadline) {
  std::vector<std::string> open = keys;
  try {
    for (Backoff backoff;;) {
      const auto absent = impl_->missing(open, deadline);
      if (absent.keys.empty() && open.size() == keys.size()) {
        return;
      }
      // Keys seen before may have been erased since, so all are read once more.
      open = absent.keys.empty() ? keys : absent.keys;
      if (absent.keys.empty()) {
        continue;
      }
      const std::string failure =
          impl_->await_put(open.front(), absent.revision, deadline);
      if (deadline.expired()) {
        throw TimeoutError(missing_text(open, deadline));
      }
      if (!failure.empty()) {
        backoff.pause(deadline);
      }
    }
  } catch (const EtcdUnreachable& error) {
    throw TimeoutError(
        str(missing_text(open, deadline), " (", error.what(), ")"));
  }
}

bool EtcdKv::erase(const std::string& key, Deadline deadline) {
  const std::string full = impl_->root + key;
  return EtcdTxn::Change(impl_->txn)
      .apply(full, {is_present(full)}, erasure(full), deadline)
      .applied;
}

std::map<std::string, std::string> EtcdKv::list(
    const std::string& prefix, Deadline deadline) {
  const std::string full = impl_->root + prefix;
  const json answer = impl_->client->call(
      "kv/range",
      {{"key", base64_encode(full)},
       {"range_end", base64_encode(range_end(full))}},
      deadline);
  std::map<std::string, std::string> found;
  for (EtcdPair& pair : pairs_of(answer)) {
    if (pair.key.starts_with(full)) {
      found.emplace(pair.key.substr(impl_->root.size()), std::move(pair.value));
    }
  }
  return found;
}

std::unique_ptr<Lease> EtcdKv::grant(
    std::chrono::milliseconds ttl, Deadline deadline) {
  check_ttl(ttl);
  const auto asked = time_now();
  const auto lease = new_lease(
      *impl_->client, std::chrono::ceil<std::chrono::seconds>(ttl), deadline);
  return std::make_unique<RenewedLease>(
      LeaseTerms{lease.id, lease.ttl, asked},
      impl_->client.get(),
      operations_of(impl_->client, lease.id));
}

} // namespace argosy::store
