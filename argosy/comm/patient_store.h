#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace argosy::comm {

// A store whose waits let other threads of this rank use it meanwhile. c10d's
// stores block their only connection while they wait, so two threads that each
// connect to another peer could deadlock around a ring of ranks. As thread-safe
// as the store that it wraps.
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

  // Poll. Throw a TimeoutError that names a missing key.
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
};

} // namespace argosy::comm
