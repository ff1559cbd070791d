#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/operation/op_record.h"
#include "argosy/common/deadline.h"

namespace argosy::comm::message {

// A key-value store that all members of a group reach when messages no longer
// get through. No call blocks for long. All throw when the store cannot be
// reached.
class FailureStore {
 public:
  virtual ~FailureStore() = default;

  virtual void set(const std::string& key, const std::string& text) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;
  // Sets the key unless it is set; returns its value.
  virtual std::string claim(
      const std::string& key, const std::string& text) = 0;
};

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

// Makes all members of a group fail with the same error. The first member to
// fail writes its verdict to the failure store and closes its connections. A
// member whose transfers break reads the store before it blames a neighbour,
// then closes its own connections in turn. A member whose deadline passes calls
// the roll: members inside the operation see their transfers break, and answer
// with whom they wait for. The error names those that do not answer and that
// somebody waits for; the others have completed the operation before. Who
// answered the roll stays until all others that did have heard the verdict,
// for a moment: it may be the one that serves the store.
//
// Thread-safe.
class FailureAgreement {
 public:
  struct Setup {
    std::string group; // its name in messages
    int rank = 0;
    int size = 1;
    std::vector<int> labels; // ranks as messages name them; empty: 0, 1, ...
    // Null: each member decides alone.
    std::shared_ptr<FailureStore> failure_store;
    // Ends this member's transfers, which its peers notice. Called once or
    // more, by any thread.
    std::function<void(const std::string& reason)> cut;
  };

  explicit FailureAgreement(Setup setup);

  // Throws the verdict if there is one.
  void check();

  // For the exception that an operation ended with: agrees with the other
  // members on a verdict and throws it.
  [[noreturn]] void settle(
      const std::exception_ptr& error, const OpRecord& op, Deadline deadline);

  void abort(const std::string& reason);

 private:
  // Calls the store; nullopt when it cannot be reached.
  template <typename Call>
  auto ask(const Call& call) -> std::optional<decltype(call())>;
  // Whether it seems of no use to call the store again.
  bool store_is_silent() const;
  std::optional<std::string> read(const std::string& key);
  std::optional<Verdict> posted();
  std::optional<Verdict> await_posted(Deadline deadline);
  Verdict post(Verdict verdict);
  void answer_roll(int awaited);
  Verdict call_roll(const OpRecord& op, Deadline deadline, int awaited);
  void await_hearers();
  // What the answers to the roll say.
  struct Roll {
    std::vector<int> missing; // ranks without an answer
    std::vector<int> awaited; // those that others wait for
    bool all_say = true;      // whom they wait for
  };
  Roll read_roll();
  static std::vector<int> blamed(const Roll& roll);
  Verdict lost(const std::exception_ptr& error, const OpRecord& op);
  void keep(const Verdict& verdict);
  int label(int rank) const;

  const Setup setup_;
  std::atomic<int> num_unanswered_{0}; // calls of the store, one after another
  std::atomic<bool> answered_roll_{false};
  std::mutex mutex_;
  std::optional<Verdict> verdict_; // guarded by mutex_
};

} // namespace argosy::comm::message
