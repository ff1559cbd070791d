#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "argosy/rpc/connection.h"
#include "argosy/rpc/dial.h"
#include "argosy/rpc/endpoint.h"
#include "argosy/rpc/handler_pool.h"

namespace argosy::rpc {

// What the calls of an endpoint share.
struct Caller {
  EndpointOptions options;
  std::shared_ptr<Loop> loop;
  std::shared_ptr<BufferPool> buffers;
  HandlerPool* pool = nullptr; // connects; ends before the endpoint does
  Dialer dialer;
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> resent{0};
};

class Peer;

// A call under way, as its caller sees it.
class PendingCall : public FutureState<Message> {
 public:
  PendingCall(
      std::shared_ptr<Peer> peer_called,
      std::string_view method_called,
      Message request,
      const CallOptions& call_options);

  bool await(Deadline limit) override;
  void cancel() override;
  void on_done(Callback callback) override;

  // Sleeps until it has ended or somebody calls wake_up().
  void rest(Deadline limit) { sleep(limit); }
  void wake_up() { wake(); }

  const std::shared_ptr<Peer> peer;
  const std::string method;
  const Deadline deadline;
  const bool exactly_once;
  const std::size_t bytes;

  // Guarded by the peer's mutex.
  std::uint64_t sequence = 0;
  std::uint64_t sent_on = 0; // the connection; 0: not sent
  bool has_callback = false;
  Message message; // until it is answered, or sent if not exactly-once
};

// Calls to one worker: its connection, and what is under way. Connects when
// first needed, and again when a connection broke and there is something to
// send. Thread-safe.
class Peer : public Connection::Owner,
             public std::enable_shared_from_this<Peer> {
 public:
  Peer(std::shared_ptr<Caller> caller, PeerId id, PeerInfo info);

  const PeerInfo& info() const { return info_; }

  std::shared_ptr<PendingCall> call(
      std::string_view method, Message message, const CallOptions& options);

  // The same for a caller that waits at once.
  std::shared_ptr<PendingCall> call_and_drive(
      std::string_view method, Message message, const CallOptions& options);

  // Waits on behalf of a call, and receives meanwhile if nobody else does.
  // Returns when the call has ended, at `limit`, or when it should try again.
  void help(PendingCall& call, Deadline limit);

  // The call has a callback: its answer is received as soon as it comes, even
  // if nobody waits for it.
  void add_callback(PendingCall& call);

  // Ends a call that is under way, and tells the callee.
  void give_up(PendingCall& call, Failure failure, const std::string& why);

  // Ends calls whose deadline has passed; returns the next deadline.
  Loop::Time tick(Loop::Time now);

  // Ends all calls, for good.
  void close(Failure failure, const std::string& why);
  void break_connection();

  bool admit(const FrameHeader&) override { return true; }
  void on_frame(Frame frame) override;
  void on_closed(Connection& connection, const std::string& why) override;

 private:
  using CallPtr = std::shared_ptr<PendingCall>;

  // What is sent for a call, and where; null: nowhere yet.
  struct Outgoing {
    std::shared_ptr<Connection> connection{};
    FrameHeader header{};
    Message message{};

    void send(const PendingCall& call);
  };

  CallPtr add(
      std::string_view method,
      Message message,
      const CallOptions& options,
      Outgoing& out);
  void prepare(PendingCall& call, Outgoing& out);
  void wait_for_room(
      std::unique_lock<std::mutex>& lock, std::size_t bytes, Deadline deadline);
  std::shared_ptr<Connection> connection_or_connect();
  // With mutex_ held: where frames about calls that were sent go.
  const std::shared_ptr<Connection>& carrier() const {
    return opening_ != nullptr ? opening_ : connection_;
  }
  void send(const std::shared_ptr<Connection>& connection, PendingCall& call);
  Loop::Time add_late(Loop::Time now, std::vector<CallPtr>& late) const;
  void connect();
  void pause_before_connecting();
  void connected(Dialed dialed);
  std::vector<CallPtr> unsent() const;
  std::vector<CallPtr> take_unknown(const Dialed& dialed);
  void send_waiting(const std::shared_ptr<Connection>& connection);
  void connect_failed(Failure failure, const std::string& why);
  CallPtr take(std::uint64_t sequence);
  void forget(const CallPtr& call);
  std::uint64_t confirmed() const;
  void after_drive(Connection& connection);
  void confirm_large(const PendingCall& call, const Frame& frame);
  std::exception_ptr error(
      const PendingCall& call, Failure failure, const std::string& why) const;
  void fail(
      const std::vector<CallPtr>& calls,
      Failure failure,
      const std::string& why);

  const std::shared_ptr<Caller> caller_;
  const PeerId id_;
  const PeerInfo info_;
  const Address address_;
  const std::string session_;

  std::mutex mutex_;
  std::condition_variable room_;
  // Guarded by mutex_.
  std::unordered_map<std::uint64_t, CallPtr> calls_;
  std::set<std::uint64_t> once_; // sequences of exactly-once calls under way
  std::size_t bytes_ = 0;
  std::size_t callbacks_ = 0;                    // calls that have one
  Loop::Time next_deadline_ = Loop::Time::max(); // of a call, or before
  std::uint64_t last_sequence_ = 0;
  std::vector<PendingCall*>
      followers_; // wait while another call's thread reads
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<Connection> opening_; // will be connection_ when it has
                                        // carried what waited for it
  std::uint64_t last_connection_ = 0;   // its number, or that of opening_
  std::string instance_; // of the peer that we have been connected to
  bool connecting_ = false;
  int vain_connections_ = 0; // in a row that brought no answer
  std::string closed_;       // why no more calls are possible; empty: they are
  Failure closed_failure_ = Failure::PeerLost;
};

} // namespace argosy::rpc
