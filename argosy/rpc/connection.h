#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/process_watch.h"
#include "argosy/rpc/frame.h"
#include "argosy/rpc/loop.h"
#include "argosy/rpc/ring.h"

namespace argosy::rpc {

// Frames over a channel, in both directions.
//
// Whoever sends writes itself, as far as the channel takes it; the loop writes
// the rest. The loop receives; or a thread that waits for a reply does so
// itself (drive()), which saves a change of threads. One thread at a time
// reads.
class Connection : public Loop::Source,
                   public std::enable_shared_from_this<Connection> {
 public:
  // Whom the frames are for.
  class Owner {
   public:
    virtual ~Owner() = default;

    // Whether there is memory for this frame. If not, nothing is received until
    // resume().
    virtual bool admit(const FrameHeader& header) = 0;

    // On the thread that receives, which is not always the loop's.
    virtual void on_frame(Frame frame) = 0;

    // Once, on the loop's thread.
    virtual void on_closed(Connection& connection, const std::string& why) = 0;
  };

  // Makes the channel a RingChannel's or SocketChannel's; `ring` is the same
  // object if it is in shared memory, else null.
  Connection(
      std::shared_ptr<Loop> loop,
      std::unique_ptr<Channel> channel,
      RingChannel* ring,
      std::size_t longest_message,
      std::shared_ptr<BufferPool> buffers);
  ~Connection() override;

  // Begins to receive. `process` is that of the peer, if it is on this host.
  void start(
      std::weak_ptr<Owner> owner,
      std::shared_ptr<const ProcessWatch> process = nullptr);

  // Does not block. On a closed connection, does nothing. `charge` is released
  // when the frame is written.
  void send(
      FrameHeader header,
      std::string_view method,
      const Message& message,
      std::shared_ptr<const void> charge = nullptr);

  // Any thread; the first reason counts.
  void close(const std::string& why);
  bool closed() const { return closed_; }

  // Receives on this thread until `done()` or the deadline, after `first()`.
  // Returns false if another thread receives now. Whoever makes done() true
  // calls kick().
  bool drive(
      const std::function<bool()>& done,
      Deadline deadline,
      const std::function<void()>& first = nullptr);
  void kick();

  // Makes the loop receive whenever nobody drives. A connection begins so;
  // drive() ends it, because a client's thread that makes one call after the
  // other needs no loop, and the loop would only be in its way. Who expects
  // something and does not drive calls this.
  void arm();
  bool armed() const { return armed_; }

  // The same when nobody has driven for a millisecond, for one who will
  // probably do so: a loop that wakes up for each answer only takes time away
  // from him.
  void arm_soon();
  // On the loop's thread, at its ticks.
  void arm_if_asked();

  // After admit() has refused.
  void resume();

  // In on_frame(), of a server's connection: see Loop::defer().
  void defer(std::function<void()> task);

  // Bytes that wait to be sent.
  std::size_t queued_bytes() const { return queued_; }

  bool in_memory() const { return ring_ != nullptr; }

  // Loop::Source.
  void on_events(std::uint32_t events) override;
  bool poll() override;
  bool expects_work() const override { return armed_ && !closed_; }
  bool has_work() const override;
  bool await_event() override;
  void end_wait() override;

 private:
  // A piece of what is to be sent.
  struct Segment {
    std::string own;
    Bytes part;
    std::size_t sent = 0;
    std::vector<std::shared_ptr<const void>> charges; // of frames that end here

    std::span<const std::byte> rest() const;
  };
  enum class Received { Nothing, Something, Ended };

  bool receive(std::size_t most_frames);
  bool receive_corked(std::size_t most_frames, bool all);
  Received fill();
  Received take_staged(std::span<std::byte> room);
  ssize_t read(std::span<std::byte> room);
  void end_of_data();
  void receive_later();
  void wait_for_reply(const std::function<bool()>& done, Deadline deadline);
  void poll_socket(Deadline deadline);
  void queue(
      FrameHeader& header,
      std::string_view method,
      const Message& message,
      std::shared_ptr<const void> charge);
  void keep_memory(std::string& own);
  void flush();
  bool flush_some();
  bool wait_for_space();
  void disarm();
  void set_wants_out(bool wants);
  void update_interest();
  void hang_up();
  void finish();

  const std::shared_ptr<Loop> loop_;
  const std::unique_ptr<Channel> channel_;
  RingChannel* const ring_;
  std::weak_ptr<Owner> owner_;
  std::shared_ptr<const ProcessWatch> process_;
  store::Socket process_fd_; // a copy of process_'s; readable when it has ended
  std::uint64_t watch_id_ = 0;
  std::uint64_t process_id_ = 0;
  const store::Socket kick_; // an eventfd; wakes who drives a socket

  std::atomic<bool> closed_{false};
  std::atomic<bool> hung_up_{false};
  std::atomic<bool> armed_{true}; // changes with reading_ held
  std::atomic<bool> arm_soon_{false};
  std::atomic<std::uint64_t> drives_{0}; // so far; changes with reading_ held
  std::uint64_t drives_at_tick_ = 0;     // of the loop's thread
  std::atomic<bool> driven_{false};      // who holds reading_ is in drive()
  std::atomic<bool> paused_{false};
  // Something may have been read from the channel that no frame has used yet,
  // which neither epoll nor the ring reports. Changes with reading_ held.
  std::atomic<bool> more_{false};
  std::atomic<std::size_t> queued_{0};

  std::mutex reading_;
  // Guarded by reading_.
  FrameReader reader_;
  std::vector<std::byte> staging_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  bool drained_ = false; // nothing to read until the socket says so
  SpinBudget spin_;

  std::mutex sending_;
  // Guarded by sending_.
  std::deque<Segment> segments_;
  std::string spare_;   // empty; its memory is for the next segment
  bool corked_ = false; // frames are queued; whoever set it flushes them
  SpinBudget space_spin_;

  std::mutex interest_mutex_;
  // Guarded by interest_mutex_.
  bool wants_out_ = false;
  std::uint32_t interest_ = 0;
  std::string why_; // it was closed
};

} // namespace argosy::rpc
