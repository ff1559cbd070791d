#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace argosy {

// Short texts that the ranks of a world leave for each other in its store, for
// checks that must not wait for anybody. No torch header. Thread-safe.
class Notes {
 public:
  Notes(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Notes() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Leaves a text under the key unless another rank did; returns what is there.
  virtual std::string claim(
      const std::string& key, const std::string& text) = 0;
  virtual std::optional<std::string> find(const std::string& key) = 0;

  // Counts the calls of this rank for the name: 0, 1, ...
  int count(const std::string& name);

  // A text that this rank keeps for itself, until a later one. Empty: none.
  void keep(const std::string& name, const std::string& text);
  std::string kept(const std::string& name) const;

 private:
  const int rank_;
  const int size_;
  mutable std::mutex mutex_;
  std::map<std::string, int> counts_;       // guarded by mutex_
  std::map<std::string, std::string> kept_; // guarded by mutex_
};

// Of the calling thread's world, which owns them; null if it has none.
std::shared_ptr<Notes> current_notes();

// For bind_world().
void bind_notes(std::shared_ptr<Notes> notes);

} // namespace argosy
