#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/net.h"

namespace argosy::store {

// A safer c10d::TCPStore, compatible with torch's servers and clients.
// Thread-safe; as with c10d's, a wait blocks other threads that use the same
// object.
//
// - A c10d wait that times out stays registered with the server. If the key is
//   set later, the answer is taken for that of a later call: add() returns a
//   wrong number. Here the connection is dropped after any failure, and the
//   next call opens a new one.
// - A c10d call to a server that hangs, or is no c10d server, never returns.
//   Here the store's time-out limits all calls.
// - Errors are TimeoutError, which names the missing keys, and StoreError.
class TcpStore final : public c10d::Store {
 public:
  // With `serve`, hosts the store in this object. Blocks until the store
  // answers; throws as open() does.
  TcpStore(
      const Endpoint& address, bool serve, std::chrono::milliseconds timeout);
  ~TcpStore() override;

  void set(
      const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::vector<std::uint8_t> compareSet(
      const std::string& key,
      const std::vector<std::uint8_t>& expected,
      const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(
      const std::vector<std::string>& keys,
      const std::chrono::milliseconds& timeout) override;

 private:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;

  // Returns the connection; reconnects after a failure.
  StorePtr client(Deadline deadline);
  void drop();

  template <typename Call>
  auto run(const char* what, Call call);
  std::vector<std::string> missing(const std::vector<std::string>& keys);
  [[noreturn]] void throw_failed(const char* what, const std::exception& error);

  const Endpoint address_;
  StorePtr server_; // null unless serving; constant after construction
  std::mutex mutex_;
  StorePtr client_; // guarded by mutex_; null after a failure
};

} // namespace argosy::store
