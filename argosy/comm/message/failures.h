#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/message/board.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::message {

// How a group ended: what every member throws, now and later.
struct Verdict {
  enum class Kind { InvalidArgument, TimeoutError, PeerLost };

  Kind kind = Kind::PeerLost;
  std::string message;

  bool operator==(const Verdict&) const = default;
  [[noreturn]] void raise() const;
};

std::string to_text(const Verdict& verdict);
Verdict parse_verdict(const std::string& text);

// An operation, for messages.
struct Occasion {
  std::string op;          // "all_reduce"
  std::string description; // "operation 7 (all_reduce of 3 float32, sum)"
};

// Makes all members of a group fail alike. The first to fail says why on the
// board and then cuts its connections; whose transfers break looks there before
// it blames a neighbour, and cuts its own in turn. A member whose time is up
// calls the roll: those that are in the operation, and so have their transfers
// broken, answer; the others are the ones who did not come.
//
// Thread-safe.
class Failures {
 public:
  struct Setup {
    std::string group; // its name in messages
    int rank = 0;
    int size = 1;
    std::vector<int> labels; // what messages call the ranks; empty: as they are
    std::shared_ptr<Board> board; // null: each member for itself
    // Ends this member's transfers and shows the others that it does. Called
    // once or more, by any thread.
    std::function<void(const std::string& reason)> cut;
  };

  explicit Failures(Setup setup);

  // Throws the verdict if there is one.
  void check();

  // For the exception that an operation ended with: finds out, with the others,
  // what all throw, and throws it.
  [[noreturn]] void settle(
      const std::exception_ptr& error,
      const Occasion& occasion,
      Deadline deadline);

  void abort(const std::string& reason);

 private:
  std::optional<std::string> read(const std::string& key);
  std::optional<Verdict> posted();
  std::optional<Verdict> await_posted(Deadline deadline);
  Verdict post(Verdict verdict);
  void answer_roll();
  Verdict call_roll(const Occasion& occasion, Deadline deadline);
  Verdict lost(const std::exception_ptr& error, const Occasion& occasion);
  void keep(const Verdict& verdict);
  int label(int rank) const;

  const Setup setup_;
  std::mutex mutex_;
  std::optional<Verdict> verdict_; // guarded by mutex_
};

} // namespace argosy::comm::message
