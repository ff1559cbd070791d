#pragma once

#include <memory>
#include <string>

#include "argosy/store/kv.h"

namespace argosy::store {

struct MemState;

// A Kv in this process's memory, for thread ranks. A lease ends with its
// release() or destructor only, since its holder cannot die alone.
class MemKv final : public Kv {
 public:
  MemKv();
  ~MemKv() override;

  // Returns the store with that name: the same object for all callers as long
  // as someone holds it.
  static std::shared_ptr<MemKv> named(const std::string& name);

  // Makes all waits and calls, current and later, throw PeerLost with `reason`.
  // The first reason is kept.
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
  // Shared with leases, which may outlive this.
  std::shared_ptr<MemState> state_;
};

} // namespace argosy::store
