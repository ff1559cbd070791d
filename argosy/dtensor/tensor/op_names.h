#pragma once

#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace argosy::dtensor {

// Names of ops, each once. Thread-safe.
class OpNames {
 public:
  void note(const std::string& name) {
    const std::lock_guard lock(mutex_);
    names_.insert(name);
  }

  // All since the last call, in alphabetical order.
  std::vector<std::string> take() {
    std::set<std::string> taken;
    {
      const std::lock_guard lock(mutex_);
      taken = std::exchange(names_, {});
    }
    return {taken.begin(), taken.end()};
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_; // guarded by mutex_
};

} // namespace argosy::dtensor
