#pragma once

#include <memory>
#include <string>

#include "argosy/store/kv.h"

namespace argosy::store {

struct MemState;

// A Kv in this process's memory, for ranks that are threads. The keys of a
// lease go with its release() or destructor: its holder cannot vanish alone.
class MemKv final : public Kv {
 public:
  MemKv();
  ~MemKv() override;

  // The store of that name: the same one for all who ask while anyone holds
  // it, then forgotten.
  static std::shared_ptr<MemKv> named(const std::string& name);

  // All waits and calls, now and later, throw PeerLost with `reason`. The first
  // reason stays.
  void abort(const std::string& reason);

  void set(
      const std::string& key,
      const std::string& value,
      Deadline deadline,
      const Lease* lease = nullptr) override;
  std::optional<std::string> get(
      const std::string& key, Deadline deadline) override;
  std::int64_t add(
      const std::string& key, std::int64_t amount, Deadline deadline) override;
  CompareSet compare_set(
      const std::string& key,
      const std::optional<std::string>& expected,
      const std::string& desired,
      Deadline deadline) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  bool erase(const std::string& key, Deadline deadline) override;
  std::map<std::string, std::string> list(
      const std::string& prefix, Deadline deadline) override;
  std::unique_ptr<Lease> grant(
      std::chrono::milliseconds ttl, Deadline deadline) override;

 private:
  std::shared_ptr<MemState> state_; // shared with leases, which may live longer
};

} // namespace argosy::store
