#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/comm/operation/observer.h"

namespace argosy {

// Which op on DTensors caused which collective. Lists what the calling thread
// does while this lives; backward runs on the thread that calls it.
//
//   CommDebug debug;
//   loss.backward();
//   std::cout << debug.table();
//   debug.count("all_reduce");   // how many
class CommDebug : public comm::ThreadObserver {
 public:
  struct Entry {
    std::string op;         // "aten::mm"; empty: no op on DTensors
    std::string collective; // "all_gather"
    std::uint64_t bytes;    // of this rank's buffer, the longer of in and out
    std::vector<int> ranks;

    bool operator==(const Entry&) const = default;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t count(std::string_view collective) const;
  std::uint64_t bytes(std::string_view collective) const;
  void clear() { entries_.clear(); }

  // One line for each kind of entry, with how often it occurred, in the order
  // of the first.
  std::string table() const;

 private:
  Token on_issue(
      const comm::Call& call, const std::vector<int>& ranks) override;

  std::vector<Entry> entries_;
};

namespace dtensor {

// Says what op the calling thread is at.
class OpScope {
 public:
  explicit OpScope(const std::string& op);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  // Empty outside of any.
  static const std::string& current();
  // How many the calling thread has been at.
  static std::uint64_t count();

 private:
  struct Current; // of the calling thread

  Current& current_;
  const std::string* const outer_;
};

} // namespace dtensor
} // namespace argosy
