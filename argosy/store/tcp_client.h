#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/net.h"
#include "argosy/store/greeting.h"
#include "argosy/store/stream.h"
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
  Stream take(Deadline deadline);
  Stream reconnect(Deadline deadline);
  // When to give up: `reach` if nobody listens, `answer` if nobody answers.
  struct Limits {
    Deadline reach;
    Deadline answer;
  };
  std::optional<Stream> connect_patiently(
      const Limits& limits, std::string& instance);
  std::optional<Stream> connect(const Limits& limits, std::string& instance);
  std::string server_text() const; // for messages
  std::string receive_answer(
      Stream& stream, IoResult& result, Deadline deadline) const;
  void give_back(Stream stream);
  IoResult exchange(
      Stream& stream,
      const std::string& request,
      std::string& reply,
      Deadline deadline);

  const Endpoint server_;
  const TcpKvOptions options_;
  const TlsContext tls_;
  std::string instance_; // of the server; constant after construction
  std::mutex mutex_;
  std::vector<Stream> idle_; // guarded by mutex_
};

} // namespace argosy::store
