#pragma once

#include <memory>
#include <string>

#include "argosy/store/socket.h"
#include "bench/rpc_process.h"

namespace argosy::bench {

// A Redis server on a Unix socket, and a client of it.
class RedisPeer {
 public:
  // Throws SystemError, TimeoutError.
  explicit RedisPeer(const std::string& socket);
  ~RedisPeer();

  double echo_us(std::size_t size, int count);
  double set_us(std::size_t size, int count);
  double pipelined_rate(std::size_t size, int count);

 private:
  void send(const std::string& request);
  void receive(std::size_t size);

  std::unique_ptr<LineProcess> server_;
  store::Socket socket_;
};

} // namespace argosy::bench
