#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Not installed.
namespace argosy::comm {

// A store that does what another one does, for classes that change some of it.
class ForwardingStore : public c10d::Store {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Keys = std::vector<std::string>;

  explicit ForwardingStore(c10::intrusive_ptr<c10d::Store> store)
      : c10d::Store(store->getTimeout()), store_(std::move(store)) {}

  void set(const std::string& key, const Bytes& value) override {
    store_->set(key, value);
  }
  Bytes get(const std::string& key) override { return store_->get(key); }
  Bytes compareSet(
      const std::string& key,
      const Bytes& expected,
      const Bytes& desired) override {
    return store_->compareSet(key, expected, desired);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return store_->add(key, value);
  }
  bool deleteKey(const std::string& key) override {
    return store_->deleteKey(key);
  }
  bool check(const Keys& keys) override { return store_->check(keys); }
  std::int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const Keys& keys) override { store_->wait(keys); }
  void wait(
      const Keys& keys, const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }

 protected:
  const c10::intrusive_ptr<c10d::Store>& inner() const { return store_; }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

} // namespace argosy::comm
