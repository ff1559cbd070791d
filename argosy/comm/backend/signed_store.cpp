#include "argosy/comm/backend/signed_store.h"

#include <algorithm>
#include <utility>

#include "argosy/comm/backend/forwarding_store.h"
#include "argosy/common/error.h"

namespace argosy::comm {

namespace {

class SignedStore final : public ForwardingStore {
 public:
  SignedStore(c10::intrusive_ptr<c10d::Store> store, const store::Secret& key)
      : ForwardingStore(std::move(store)), key_(key) {}

  void set(const std::string& key, const Bytes& value) override {
    inner()->set(key, with_signature(key, value));
  }

  Bytes get(const std::string& key) override {
    return verified(key, inner()->get(key));
  }

  // Empty bytes stand for an absent key, before and after.
  Bytes compareSet(
      const std::string& key,
      const Bytes& expected,
      const Bytes& desired) override {
    const auto held = inner()->compareSet(
        key,
        expected.empty() ? expected : with_signature(key, expected),
        with_signature(key, desired));
    return held.empty() ? held : verified(key, held);
  }

 private:
  // The size of the key tells where it ends and the value begins.
  std::string signature(const std::string& key, const Bytes& value) const {
    std::string text = str(key.size(), ":", key);
    text.append(value.begin(), value.end());
    return key_.mac(text);
  }

  Bytes with_signature(const std::string& key, const Bytes& value) const {
    const std::string mac = signature(key, value);
    Bytes bytes(mac.begin(), mac.end());
    bytes.insert(bytes.end(), value.begin(), value.end());
    return bytes;
  }

  Bytes verified(const std::string& key, Bytes held) const {
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
