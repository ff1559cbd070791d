#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "argosy/common/deadline.h"
#include "argosy/rpc/channel.h"
#include "argosy/store/socket.h"

namespace argosy::rpc {

// Shared memory for one connection: two rings of bytes, one each way. The side
// that opens the connection creates it and passes the descriptor over the
// socket.
struct RingArea;

// How a side of a connection waits, in a word of shared memory that the other
// side reads.
enum class RingSleep : std::uint32_t {
  None,  // it looks by itself
  Futex, // a thread sleeps on this word
  Event  // its event loop sleeps: write to its eventfd
};

class RingMemory {
 public:
  // Larger than a core's own cache for what it has just written: a ring that
  // fits there is twice as slow, since each line has to be fetched from there
  // when it is read, and again when it is written.
  static constexpr std::size_t kRingBytes = 1u << 20;

  // Throws SystemError.
  static RingMemory create();

  // Maps what a peer created. Throws InvalidArgument if it is not such memory,
  // or can still shrink.
  static RingMemory map(const store::Socket& descriptor);

  int fd() const { return descriptor_.fd(); }
  RingArea* area() const { return area_.get(); }

 private:
  RingMemory() = default;

  store::Socket descriptor_; // of the creator
  std::shared_ptr<RingArea> area_;
};

// A channel over shared memory. Its socket carries nothing after the greeting,
// and tells when the peer has died.
class RingChannel : public Channel {
 public:
  enum class Side { Client = 0, Server = 1 };

  // `peer_event` is the eventfd on which the peer's event loop sleeps.
  RingChannel(
      RingMemory memory,
      Side side,
      store::Socket socket,
      store::Socket peer_event);

  ssize_t read(std::span<std::byte> room) override;
  ssize_t write(std::span<const std::byte> bytes) override;
  int fd() const override { return socket_.fd(); }
  std::string failure() const override;

  // Whether read() would return bytes (or an error).
  bool has_data() const;

  // Says that write() found no space and somebody waits for it.
  void set_wants_space(bool wants);
  bool wants_space() const;
  bool has_space() const;

  // Whether there is so much space that it is worth to go on after a wait.
  bool has_enough_space() const { return writable() >= kEnoughSpace; }

  // Whether space that was waited for is there.
  bool got_space() const { return wants_space() && has_enough_space(); }

  // Something to do.
  bool has_work() const { return has_data() || got_space(); }

  // Sleeps on a futex until there is work or `ready()`; at most until the
  // deadline. Another thread that makes ready() true calls wake_sleeper().
  void sleep(const std::function<bool()>& ready, Deadline deadline);
  void wake_sleeper();

  // Asks the peer to write to our eventfd. Returns false if there is work.
  bool await_event();
  void end_wait();

 private:
  // Who waits for space is not woken for less: each time costs as much as the
  // copy of some KB.
  static constexpr std::size_t kEnoughSpace = RingMemory::kRingBytes / 4;

  std::size_t readable() const;
  std::size_t writable() const;
  void wake_peer();

  const RingMemory memory_;
  RingArea& area_;
  const int side_;
  const store::Socket socket_;
  const store::Socket peer_event_;
  // Our positions; those in memory are for the peer. Atomic, because has_work()
  // may be asked while another thread reads or writes.
  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> read_{0};
  std::atomic<bool> corrupt_{false};
};

} // namespace argosy::rpc
