#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace argosy::comm {

// A store whose waits let other threads of this rank use it: c10d's stores hold
// their one connection while they wait, so that two connections that are made
// at once, each for another peer, would wait for each other around a ring.
// Thread-safe as the store below it.
class PatientStore final : public c10d::Store {
 public:
  explicit PatientStore(c10::intrusive_ptr<c10d::Store> store);
  ~PatientStore() override;

  void set(
      const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;

  // Ask again and again. Throw TimeoutError that names a missing key.
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

} // namespace argosy::comm
