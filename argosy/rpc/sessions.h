#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "argosy/common/deadline.h"
#include "argosy/rpc/frame.h"

namespace argosy::rpc {

// The answer to a call, as it was sent.
struct Answer {
  FrameKind kind = FrameKind::Reply;
  std::string method{}; // of FrameKind::Thrown: the exception's type
  Message message{};
};

// Bytes that all sessions keep, and their limit.
struct KeptBytes {
  std::size_t limit = 0;
  std::atomic<std::size_t> used{0};
  std::atomic<std::uint64_t> answers{0};
};

// The exactly-once calls of one caller, by sequence. A call runs once however
// often it comes; its answer is kept until the caller confirms that it has it.
// Outlives connections. Thread-safe.
class Session {
 public:
  explicit Session(std::shared_ptr<KeptBytes> kept) : kept_(std::move(kept)) {}
  ~Session();

  enum class Verdict {
    Run,      // the first time
    UnderWay, // it runs; its answer will go to the newest connection
    Answered, // here is its answer
    Stale,    // confirmed long ago: a late copy
    Full      // too many answers are unconfirmed
  };
  struct Begun {
    Verdict verdict;
    std::shared_ptr<const Answer> answer{};
  };

  Begun begin(std::uint64_t sequence, std::uint64_t confirmed);
  void confirm(std::uint64_t confirmed);

  // Keeps the answer of a call that has run. Parts that the handler only lends
  // are copied.
  std::shared_ptr<const Answer> finish(std::uint64_t sequence, Answer answer);

  // A call that will not run after all.
  void forget(std::uint64_t sequence);

 private:
  struct Entry {
    std::shared_ptr<const Answer> answer; // null: under way
    std::size_t bytes = 0;
  };
  void drop_below(std::uint64_t confirmed);
  void release(const Entry& entry);

  const std::shared_ptr<KeptBytes> kept_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t confirmed_ = 0; // all below are confirmed
};

// All sessions of an endpoint. Those whose caller has no connection are kept
// for a while, since it may come back. Used by the loop's thread only.
class Sessions {
 public:
  struct Limits {
    std::size_t absent = 1024; // without a connection
    std::chrono::seconds absence = std::chrono::minutes(10);
  };

  Sessions(std::size_t kept_bytes, Limits limits);
  explicit Sessions(std::size_t kept_bytes) : Sessions(kept_bytes, Limits()) {}

  bool knows(const std::string& name) const;

  // Opens a session, or returns the one of that name.
  std::shared_ptr<Session> enter(const std::string& name);

  // The caller has lost its connection.
  void leave(const std::string& name, Deadline::Clock::time_point now);

  const KeptBytes& kept() const { return *kept_; }

 private:
  struct Known {
    std::shared_ptr<Session> session;
    int connections = 0;
    Deadline::Clock::time_point left{};
  };
  void drop_old(Deadline::Clock::time_point now);

  const Limits limits_;
  const std::shared_ptr<KeptBytes> kept_;
  std::unordered_map<std::string, Known> known_;
  std::list<std::string> absent_; // the longest first
};

} // namespace argosy::rpc
