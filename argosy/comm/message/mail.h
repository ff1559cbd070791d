#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "argosy/comm/kernels/dtype.h"
#include "argosy/comm/message/flight.h"

namespace argosy::comm::message {

// Messages between two ranks. A letter says what comes, and holds it when it is
// short; else the receiver replies before the rest is sent, so that both know
// when they do not mean the same.
//
// Letters have a place before they come, one for each peer, from the first use
// of that peer on: a short one gets through while nobody waits for it.
// Thread-safe as Backend says.
class Mail {
 public:
  Mail(std::string group, Messenger& messenger);
  ~Mail(); // after the messenger was aborted

  // Of `count` elements; throws InvalidArgument when the receiver expects
  // another number or type.
  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Flight& flight);
  void receive(
      void* data, std::size_t count, DType dtype, int peer, Flight& flight);

  // A peer whose letter is here.
  int await_any(Deadline deadline);

 private:
  struct Head {
    std::uint64_t count = 0;
    std::uint64_t dtype = 0;
  };

  // What has come of one peer. Guarded by mutex_, but for the letter, which
  // belongs to who reads, and then to who receives.
  struct Box {
    std::vector<std::byte> letter;
    Pending arrival;
    bool expected = false; // a place for the letter is given
    bool reading = false;  // a thread waits for it
    bool ready = false;
    std::exception_ptr error;
    std::thread watcher; // reads for await_any(), from its first call on
  };

  Box& box(int peer) { return boxes_[static_cast<std::size_t>(peer)]; }
  void expect_letter(int peer);
  void read_letter(int peer, Deadline deadline);
  void watch(int peer);
  void wait_for_removal(int peer);
  std::string mismatch(const Head& sent, const Head& expected, int peer) const;

  const std::string group_;
  Messenger& messenger_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Box> boxes_;
  bool stop_ = false; // guarded by mutex_
};

} // namespace argosy::comm::message
