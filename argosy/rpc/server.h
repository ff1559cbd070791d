#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "argosy/rpc/address.h"
#include "argosy/rpc/greeter.h"
#include "argosy/rpc/server_peer.h"

namespace argosy::rpc {

// Listens, greets those who connect, and gives their calls to the service.
// Unless said otherwise, used by the loop's thread.
class Server : public std::enable_shared_from_this<Server> {
 public:
  // Listens. Throws StoreError, SystemError, InvalidArgument.
  Server(
      const EndpointOptions& options,
      std::shared_ptr<Loop> loop,
      std::shared_ptr<BufferPool> buffers,
      std::shared_ptr<Service> service);

  // Begins to accept; any thread.
  void start();

  const Address& address() const { return address_; }
  const store::TlsContext& tls() const { return host_.tls; }
  const store::Credentials& credentials() const { return host_.credentials; }

  // Turns away those who have not greeted in time. Returns when to come again.
  Loop::Time tick(Loop::Time now);

  void close_all(const std::string& why);

  // After the loop has ended: nobody can connect any more.
  void stop_listening();

  // Any thread.
  std::uint64_t refused() const { return refused_; }
  std::uint64_t kept_results() const { return sessions_.kept().answers; }
  bool has_unsent() const;

 private:
  class Listener;

  void accept_all(int listener, bool is_unix);
  void set_accepting(bool accepting);
  void admit(store::Socket socket, bool is_unix);
  void greeted(Greeter& greeter, Greeter::Outcome outcome);
  void open(Greeter::Outcome outcome);
  std::shared_ptr<ReplyRoute> route_of(const std::string& session);
  void on_closed(const Connection& connection, const std::string& session);
  void drop(const std::string& why);

  const EndpointOptions options_;
  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<BufferPool> buffers_;
  const std::shared_ptr<Service> service_;
  store::Socket unix_listener_;
  store::Socket tcp_listener_;
  Address address_;
  Greeter::Host host_;

  Sessions sessions_;
  // By session; whoever still has to answer a call of it keeps it.
  std::map<std::string, std::weak_ptr<ReplyRoute>> routes_;
  std::list<std::shared_ptr<Greeter>> greeters_; // oldest first
  std::map<int, std::uint64_t> listeners_; // descriptors and their watches
  std::optional<Loop::Time> accept_again_;
  struct Open {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<ServerPeer> peer;
  };
  mutable std::mutex mutex_;
  std::map<const Connection*, Open> open_; // guarded by mutex_
  std::atomic<std::uint64_t> refused_{0};
  std::map<std::string, int> logged_; // reasons to turn somebody away
};

} // namespace argosy::rpc
