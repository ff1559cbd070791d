#include "argosy/store/kv_store.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::store {

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string to_text(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

Bytes to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

Deadline deadline_of(std::chrono::milliseconds timeout) {
  return Deadline::after(
      timeout == c10d::Store::kNoTimeout ? std::chrono::hours(24 * 365)
                                         : timeout);
}

} // namespace

KvStore::KvStore(std::shared_ptr<Kv> kv, std::chrono::milliseconds timeout)
    : c10d::Store(timeout), kv_(std::move(kv)) {
  ARGOSY_CHECK(kv_ != nullptr, "[store.kv_store] the Kv is null");
}

KvStore::~KvStore() = default;

Deadline KvStore::deadline() const {
  return deadline_of(timeout_);
}

void KvStore::set(const std::string& key, const Bytes& value) {
  kv_->set(key, to_text(value), deadline());
}

// c10d has no separate value for "absent". An empty `expected` matches an
// absent key and also an empty value, hence two tries. If the key is absent and
// `expected` is not empty, c10d returns `expected`.
Bytes KvStore::compareSet(
    const std::string& key, const Bytes& expected, const Bytes& desired) {
  const Deadline limit = deadline();
  if (expected.empty()) {
    const auto result =
        kv_->compare_set(key, std::nullopt, to_text(desired), limit);
    if (result.swapped || (result.value && !result.value->empty())) {
      return to_bytes(result.value.value_or(""));
    }
  }
  const auto result =
      kv_->compare_set(key, to_text(expected), to_text(desired), limit);
  return result.value ? to_bytes(*result.value) : expected;
}

Bytes KvStore::get(const std::string& key) {
  const Deadline limit = deadline();
  for (;;) {
    if (const auto value = kv_->get(key, limit)) {
      return to_bytes(*value);
    }
    // A loop, because the key may be erased between the two calls.
    kv_->wait({key}, limit);
  }
}

std::int64_t KvStore::add(const std::string& key, std::int64_t value) {
  return kv_->add(key, value, deadline());
}

bool KvStore::deleteKey(const std::string& key) {
  return kv_->erase(key, deadline());
}

bool KvStore::check(const std::vector<std::string>& keys) {
  const Deadline limit = deadline();
  return std::ranges::all_of(keys, [&](const std::string& key) {
    return kv_->get(key, limit).has_value();
  });
}

std::int64_t KvStore::getNumKeys() {
  return static_cast<std::int64_t>(kv_->list("", deadline()).size());
}

void KvStore::wait(const std::vector<std::string>& keys) {
  kv_->wait(keys, deadline());
}

void KvStore::wait(
    const std::vector<std::string>& keys,
    const std::chrono::milliseconds& timeout) {
  kv_->wait(keys, deadline_of(timeout));
}

} // namespace argosy::store
