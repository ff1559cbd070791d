#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "argosy/common/deadline.h"
#include "argosy/ps/service/directory.h"
#include "argosy/ps/service/log_options.h"
#include "argosy/ps/service/shape.h"
#include "argosy/store/credentials.h"

namespace argosy::store {
class Kv;
}

namespace argosy::rpc {
class Endpoint;
class IncomingCall;
struct Message;
} // namespace argosy::rpc

namespace argosy::ps {

class Region;

struct ServerOptions {
  int server = 0; // its index
  Shape shape{};
  std::shared_ptr<store::Kv> kv{}; // the job's store
  std::string prefix = "ps/";      // of the keys of this service

  // Every region is on two servers: an update counts when both have it.
  bool replicated = false;
  LogOptions log{};
  // New sparse tables begin with what a save wrote here; empty: with nothing.
  std::string load_folder{};

  store::Credentials credentials{};
  std::string tcp_host{}; // see rpc::EndpointOptions
  std::uint16_t tcp_port = 0;
  // For joining the store and other servers.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

// A process's part of a parameter server. It serves from construction on.
class Server {
 public:
  // Throws StoreError, TimeoutError, InvalidArgument, SystemError (log).
  explicit Server(ServerOptions options);
  ~Server();

  // Blocks until a worker stops the service or stop() is called. Throws
  // TimeoutError at the deadline.
  void run(Deadline deadline);
  void stop();

 private:
  void serve();
  Region& region_of(const rpc::Message& request);
  void on_manage(rpc::IncomingCall call);
  void manage();
  void manage_region(int region, Region& host);
  bool claim(int region, Region& host);
  bool is_newest(int region, const Region& host);
  void join_or_recover(int region, Region& host, const Lineup& recorded);
  bool runs(const Member& member) const;
  bool ask(int server, const rpc::Message& request);
  void update_peers();

  const ServerOptions options_;
  Directory directory_;
  Member self_;
  std::unique_ptr<rpc::Endpoint> endpoint_;
  std::map<int, std::unique_ptr<Region>> regions_;
  std::map<int, ServerRecord> servers_; // of the manager's thread

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false; // guarded by mutex_
  std::thread manager_;
};

} // namespace argosy::ps
