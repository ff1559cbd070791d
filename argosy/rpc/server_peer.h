#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "argosy/rpc/connection.h"
#include "argosy/rpc/endpoint.h"
#include "argosy/rpc/handler_pool.h"
#include "argosy/rpc/request_budget.h"
#include "argosy/rpc/sessions.h"

namespace argosy::rpc {

struct Served {
  Handler handler;
  ServeOptions options;
};

// What all connections of a server share. Thread-safe.
class Service {
 public:
  Service(const EndpointOptions& options);

  void add(std::string method, Handler handler, ServeOptions options);

  // Null if there is none.
  std::shared_ptr<const Served> find(const std::string& method) const;

  // Calls that are under way; drain() waits until there is none, and makes
  // begin() return false.
  bool begin();
  void end();
  bool drain(Deadline deadline);

  // On the loop's thread: an inline function was called; whether one was since
  // this was asked last.
  void note_fast_call() { fast_calls_came_ = true; }
  bool fast_calls_came() { return std::exchange(fast_calls_came_, false); }

  const std::string name; // of this worker
  const std::shared_ptr<RequestBudget> budget;
  HandlerPool pool;
  std::atomic<std::uint64_t> served{0};
  std::atomic<std::uint64_t> repeated{0};

 private:
  bool fast_calls_came_ = false;

  mutable std::shared_mutex methods_mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Served>>
      methods_; // guarded by methods_mutex_

  std::atomic<std::size_t> calls_{0};
  std::atomic<bool> draining_{false};
  std::mutex mutex_;
  std::condition_variable none_; // with mutex_: calls_ became zero
};

// Where the answers of a caller go: to its newest connection. Thread-safe.
class ReplyRoute {
 public:
  void set(std::weak_ptr<Connection> connection);
  void send(
      std::uint64_t sequence,
      const Answer& answer,
      std::shared_ptr<const void> charge) const;

 private:
  mutable std::mutex mutex_;
  std::weak_ptr<Connection> connection_; // guarded by mutex_
};

// A caller's connection, as the callee sees it.
class ServerPeer : public Connection::Owner,
                   public std::enable_shared_from_this<ServerPeer> {
 public:
  ServerPeer(
      std::shared_ptr<Service> service,
      std::shared_ptr<const CallOrigin> origin,
      std::shared_ptr<Session> session,
      std::shared_ptr<ReplyRoute> session_route,
      std::function<void(Connection&)> on_closed);

  void start(const std::shared_ptr<Connection>& connection);

  bool admit(const FrameHeader& header) override;
  void on_frame(Frame frame) override;
  void on_closed(Connection& connection, const std::string& why) override;

  using CancelFlag = std::atomic<bool>;
  // A call is under way: its flag tells when nobody waits for it any more, and
  // stays until forget().
  void remember(std::uint64_t sequence, CancelFlag& cancelled, bool once);
  void forget(std::uint64_t sequence);

 private:
  void on_call(Frame frame);
  const std::shared_ptr<const Served>& find(const std::string& method);
  void run(
      Frame frame,
      const std::shared_ptr<const Served>& served,
      std::shared_ptr<RequestBudget::Charge> charge);
  bool may_run(const Frame& frame);
  void refuse(std::uint64_t sequence, std::string why);
  void cancel(std::uint64_t sequence);

  const std::shared_ptr<Service> service_;
  const std::shared_ptr<const CallOrigin> origin_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<ReplyRoute> session_route_; // of exactly-once calls
  const std::shared_ptr<ReplyRoute> own_route_;     // of all others
  const std::function<void(Connection&)> on_closed_;
  std::weak_ptr<Connection> connection_;
  std::shared_ptr<RequestBudget::Charge> charge_; // of the frame that arrives
  // What was called last, and is probably called next: functions never go.
  std::string last_method_;
  std::shared_ptr<const Served> last_served_;

  std::mutex mutex_;
  struct UnderWay {
    CancelFlag* cancelled = nullptr;
    bool once = false;
  };
  std::unordered_map<std::uint64_t, UnderWay> calls_; // guarded by mutex_
};

} // namespace argosy::rpc
