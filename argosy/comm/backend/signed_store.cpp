#include "argosy/comm/backend/signed_store.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

using SignedBytes = std::vector<std::uint8_t>;

class SignedStore final : public c10d::Store {
 public:
  SignedStore(c10::intrusive_ptr<c10d::Store> store, const store::Secret& key)
      : c10d::Store(store->getTimeout()), store_(std::move(store)), key_(key) {}

  void set(const std::string& key, const SignedBytes& value) override {
    store_->set(key, with_signature(key, value));
  }

  SignedBytes get(const std::string& key) override {
    return verified(key, store_->get(key));
  }

  // Empty bytes stand for an absent key, before and after.
  SignedBytes compareSet(
      const std::string& key,
      const SignedBytes& expected,
      const SignedBytes& desired) override {
    const auto held = store_->compareSet(
        key,
        expected.empty() ? expected : with_signature(key, expected),
        with_signature(key, desired));
    return held.empty() ? held : verified(key, held);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return store_->add(key, value);
  }
  bool deleteKey(const std::string& key) override {
    return store_->deleteKey(key);
  }
  bool check(const std::vector<std::string>& keys) override {
    return store_->check(keys);
  }
  std::int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override {
    store_->wait(keys);
  }
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }

 private:
  // The size of the key tells where it ends and the value begins.
  std::string signature(
      const std::string& key, const SignedBytes& value) const {
    std::string text = str(key.size(), ":", key);
    text.append(value.begin(), value.end());
    return key_.mac(text);
  }

  SignedBytes with_signature(
      const std::string& key, const SignedBytes& value) const {
    const std::string mac = signature(key, value);
    SignedBytes bytes(mac.begin(), mac.end());
    bytes.insert(bytes.end(), value.begin(), value.end());
    return bytes;
  }

  SignedBytes verified(const std::string& key, SignedBytes held) const {
    const auto size = static_cast<std::ptrdiff_t>(
        std::min(held.size(), store::Secret::kBytes));
    const std::string mac(held.begin(), held.begin() + size);
    held.erase(held.begin(), held.begin() + size);
    if (!store::equal_bytes(mac, signature(key, held))) {
      throw StoreError(str_format(
          "[comm.connect] the value of key \"{}\" was not set by a member of "
          "the group, expected the signature of one",
          key));
    }
    return held;
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const store::Secret key_;
};

} // namespace

c10::intrusive_ptr<c10d::Store> signed_store(const Members& members) {
  if (!members.key) {
    return members.store;
  }
  return c10::make_intrusive<SignedStore>(members.store, *members.key);
}

} // namespace argosy::comm
