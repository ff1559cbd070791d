#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "argosy/store/kv.h"

namespace argosy::launch {

// How the launchers of a job tell each other what their workers do, so that any
// of them can say who waits for whom. Asks are numbered; an answer to one is an
// answer to all before it. Nothing here throws, or blocks for longer than a
// second: a job that runs must not end because of a notice.
class HangShare {
 public:
  virtual ~HangShare() = default;

  // Asks all launchers. Returns the number of the ask; 0: nobody can be asked.
  virtual int ask() = 0;

  // The number of the last ask of any launcher; 0: none. `look`: in the store,
  // not only in what the last poll of the job has found.
  virtual int last_ask(bool look) = 0;

  // How often to look for asks; zero: the job is polled anyway.
  virtual std::chrono::milliseconds look_every() const = 0;

  // Answers an ask with the flight records of this node.
  virtual void answer(int ask, const std::string& records) = 0;

  struct Answers {
    std::vector<std::string> records; // of each other node that answered
    bool is_complete = false;
  };
  virtual Answers answers_to(int ask) = 0;
};

// Where the launchers of an attempt of a job share, in their store.
struct HangRoom {
  store::Kv& kv;
  std::string asks;    // the key that counts asks
  std::string answers; // the prefix of a key for each node
  int node = 0;        // a number of this node's own
  int num_nodes = 1;
  const store::Lease* lease = nullptr;
  std::chrono::milliseconds look_every{0}; // see HangShare
};

class StoreHangShare final : public HangShare {
 public:
  explicit StoreHangShare(HangRoom room) : room_(std::move(room)) {}

  // Tells the value of the counter to one who need not look.
  void note_asks(const std::string& value);

  int ask() override;
  int last_ask(bool look) override;
  std::chrono::milliseconds look_every() const override {
    return room_.look_every;
  }
  void answer(int ask, const std::string& records) override;
  Answers answers_to(int ask) override;

 private:
  const HangRoom room_;
  int last_ask_ = 0;
};

} // namespace argosy::launch
