#include "argosy/store/etcd_txn.h"

#include <random>

#include "argosy/common/text.h"
#include "argosy/store/base64.h"

namespace argosy::store {

namespace {

using nlohmann::json;

// How long markers of a client that died remain. Far longer than a request is
// usually repeated, because a repeat relies on its marker.
constexpr std::chrono::seconds kMarkerTtl(600);

std::string random_id() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex << random() << random();
  return text.str();
}

json condition(const std::string& key, const char* target, const char* result) {
  return {{"key", base64_encode(key)}, {"target", target}, {"result", result}};
}

json range_of(const std::string& key) {
  return {{"request_range", {{"key", base64_encode(key)}}}};
}

} // namespace

std::int64_t int_field(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    return 0;
  }
  return parse_int(found->get_ref<const std::string&>()).value_or(0);
}

namespace {

[[noreturn]] void throw_form(std::string_view expected) {
  throw StoreError(
      str("[store.etcd] an answer has another form, expected ", expected));
}

// A text in base64; absent if it is empty.
std::string bytes_field(const json& pair, const char* name) {
  const auto found = pair.find(name);
  if (found == pair.end()) {
    return "";
  }
  auto bytes = found->is_string()
      ? base64_decode(found->get_ref<const std::string&>())
      : std::nullopt;
  if (!bytes) {
    throw_form(str("base64 in ", name));
  }
  return std::move(*bytes);
}

} // namespace

std::vector<EtcdPair> pairs_of(const json& range) {
  const auto pairs = range.find("kvs");
  std::vector<EtcdPair> found;
  if (pairs == range.end()) {
    return found;
  }
  if (!pairs->is_array()) {
    throw_form("a list in kvs");
  }
  for (const json& pair : *pairs) {
    if (!pair.is_object()) {
      throw_form("objects in kvs");
    }
    found.push_back(
        {bytes_field(pair, "key"),
         bytes_field(pair, "value"),
         int_field(pair, "mod_revision")});
  }
  return found;
}

std::optional<EtcdValue> first_value(const json& range) {
  auto pairs = pairs_of(range);
  if (pairs.empty()) {
    return std::nullopt;
  }
  return EtcdValue{std::move(pairs.front().value), pairs.front().revision};
}

const json& response_of(
    const json& answer, std::size_t index, const char* name) {
  const auto responses = answer.find("responses");
  if (responses == answer.end() || !responses->is_array() ||
      responses->size() <= index || !(*responses)[index].contains(name)) {
    throw_form(str(name, " in response ", index));
  }
  return (*responses)[index][name];
}

json is_absent(const std::string& key) {
  json compare = condition(key, "CREATE", "EQUAL");
  compare["create_revision"] = "0";
  return compare;
}

json is_present(const std::string& key) {
  json compare = condition(key, "CREATE", "GREATER");
  compare["create_revision"] = "0";
  return compare;
}

json has_value(const std::string& key, const std::string& value) {
  json compare = condition(key, "VALUE", "EQUAL");
  compare["value"] = base64_encode(value);
  return compare;
}

json has_revision(const std::string& key, std::int64_t revision) {
  json compare = condition(key, "MOD", "EQUAL");
  compare["mod_revision"] = std::to_string(revision);
  return compare;
}

json put(const std::string& key, const std::string& value, std::int64_t lease) {
  return {
      {"request_put",
       {{"key", base64_encode(key)},
        {"value", base64_encode(value)},
        {"lease", std::to_string(lease)}}}};
}

json erasure(const std::string& key) {
  return {{"request_delete_range", {{"key", base64_encode(key)}}}};
}

EtcdLease new_lease(
    EtcdClient& client, std::chrono::seconds ttl, Deadline deadline) {
  const json answer = client.call(
      "lease/grant", {{"TTL", std::to_string(ttl.count())}}, deadline);
  return {
      int_field(answer, "ID"), std::chrono::seconds(int_field(answer, "TTL"))};
}

bool is_renewed(EtcdClient& client, std::int64_t lease, Deadline deadline) {
  const json answer =
      client.call("lease/keepalive", {{"ID", std::to_string(lease)}}, deadline);
  return int_field(answer.value("result", json()), "TTL") > 0;
}

EtcdTxn::EtcdTxn(EtcdClient& client) : client_(client), id_(random_id()) {}

std::string EtcdTxn::new_marker() {
  const std::lock_guard lock(mutex_);
  return str(".argosy-changes/", id_, "/", ++num_markers_);
}

std::string EtcdTxn::take_stale() {
  const std::lock_guard lock(mutex_);
  if (stale_.empty()) {
    return "";
  }
  std::string marker = std::move(stale_.back());
  stale_.pop_back();
  return marker;
}

// Granted on first use and renewed by use, without a thread. The mutex is not
// held during calls, so that no thread waits beyond its own deadline; two
// threads may each get a lease, of which one stays unused.
std::int64_t EtcdTxn::marker_lease(Deadline deadline) {
  const auto now = Deadline::Clock::now();
  std::int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lease_ != 0 && now < renew_at_) {
      return lease_;
    }
    lease = lease_;
  }
  if (lease == 0 || !is_renewed(client_, lease, deadline)) {
    lease = new_lease(client_, kMarkerTtl, deadline).id;
  }
  const std::lock_guard lock(mutex_);
  lease_ = lease;
  renew_at_ = now + kMarkerTtl / 3;
  return lease;
}

void EtcdTxn::forget_lease() {
  const std::lock_guard lock(mutex_);
  lease_ = 0;
}

EtcdTxn::Change::Change(EtcdTxn& txn)
    : txn_(txn), marker_(txn.new_marker()), stale_(txn.take_stale()) {}

// Hands markers that may exist to the next change, which erases one of them in
// its own transaction. A marker whose request got no answer counts as existing,
// since the request may still arrive.
EtcdTxn::Change::~Change() {
  const std::lock_guard lock(txn_.mutex_);
  if (marker_may_exist_) {
    txn_.stale_.push_back(marker_);
  }
  if (stale_may_exist_ && !stale_.empty()) {
    txn_.stale_.push_back(stale_);
  }
}

EtcdTxn::Outcome EtcdTxn::Change::apply(
    const std::string& key,
    const std::vector<json>& conditions,
    const json& operation,
    Deadline deadline) {
  try {
    return apply_once(key, conditions, operation, deadline);
  } catch (const EtcdRefused& refused) {
    if (!refused.not_found()) {
      throw;
    }
  }
  // A lease is gone. If it was that of the markers, a new one helps.
  txn_.forget_lease();
  return apply_once(key, conditions, operation, deadline);
}

EtcdTxn::Outcome EtcdTxn::Change::apply_once(
    const std::string& key,
    const std::vector<json>& conditions,
    const json& operation,
    Deadline deadline) {
  json request = {
      {"compare", conditions},
      {"success", {operation, put(marker_, "", txn_.marker_lease(deadline))}},
      {"failure", {range_of(key), range_of(marker_)}}};
  // If a lost try was applied, this condition fails, and the failure branch
  // reads the marker.
  request["compare"].push_back(is_absent(marker_));
  if (!stale_.empty()) {
    request["success"].push_back(erasure(stale_));
  }
  marker_may_exist_ = true; // until the answer arrives
  const json answer = txn_.client_.call("kv/txn", request, deadline);
  const auto succeeded = answer.find("succeeded");
  Outcome outcome{
      succeeded != answer.end() && *succeeded == true, std::nullopt};
  if (!outcome.applied) {
    // Applied by a try whose answer was lost?
    outcome.applied =
        first_value(response_of(answer, 1, "response_range")).has_value();
    outcome.now = first_value(response_of(answer, 0, "response_range"));
  }
  // An answer came, so it is certain which of the two markers exist.
  marker_may_exist_ = outcome.applied;
  stale_may_exist_ = !outcome.applied;
  return outcome;
}

} // namespace argosy::store
