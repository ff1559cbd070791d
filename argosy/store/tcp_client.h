#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/net.h"
#include "argosy/store/socket.h"
#include "argosy/store/tcp_kv.h"
#include "argosy/store/wire.h"

namespace argosy::store {

// Whether a request may reach the server twice.
enum class Repeat { Allowed, Forbidden };

// The connections of a TcpKv: sends requests and receives replies. Thread-safe.
class TcpClient {
 public:
  TcpClient(const Endpoint& server, Deadline deadline, TcpKvOptions options);

  // Returns the body of the reply, including its status Ok or Missing. `what`
  // names the call in messages. Throws StoreError with the reason when the
  // server refuses.
  std::string call(
      std::string_view what,
      const WireWriter& request,
      Repeat repeat,
      Deadline deadline);

 private:
  Socket take(Deadline deadline);
  Socket reconnect(Deadline deadline);
  std::optional<Socket> connect(Deadline deadline, std::string& instance);
  void give_back(Socket socket);
  IoResult exchange(
      const Socket& socket,
      const std::string& request,
      std::string& reply,
      Deadline deadline);

  const Endpoint server_;
  const TcpKvOptions options_;
  std::string instance_; // of the server; constant after construction
  std::mutex mutex_;
  std::vector<Socket> idle_; // guarded by mutex_
};

} // namespace argosy::store
