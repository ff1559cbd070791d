#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/service/directory.h"
#include "argosy/ps/service/messages.h"
#include "argosy/ps/service/shape.h"
#include "argosy/rpc/endpoint.h"

namespace argosy::ps {

// Finds the leaders of regions and calls them. When one is lost, asks its
// backup to lead, and goes on there. Thread-safe.
class Router {
 public:
  Router(Shape shape, std::shared_ptr<store::Kv> kv, std::string prefix);

  const Shape& shape() const { return shape_; }
  Directory& directory() { return directory_; }

  // Waits until all regions have leaders. To be called before others. Throws
  // TimeoutError, naming regions and servers that are missing.
  void connect(rpc::EndpointOptions options, Deadline deadline);
  void disconnect();

  // Sends a request to the leader; finish() gets the reply.
  struct Attempt {
    rpc::Future<rpc::Message> future;
    std::uint64_t epoch = 0; // of the lineup that it was sent by
  };
  Attempt send(
      int region,
      std::string_view method,
      const rpc::Message& message,
      Deadline deadline);

  // The reply of one attempt; nullopt if the request has to be sent again,
  // which it may at once. Throws what the server refused with (InvalidArgument
  // keeps its type), and TimeoutError, naming region and server, at the
  // deadline.
  std::optional<Reply> finish(int region, Attempt attempt, Deadline deadline);

  // Sends until there is a reply. Only for requests that may be executed twice.
  Reply call(
      int region,
      std::string_view method,
      const rpc::Message& message,
      Deadline deadline);

  // Ends all servers: those that come later, too.
  void stop_servers(Deadline deadline);

  // How often a leader was lost and another one found.
  std::uint64_t num_failovers() const;

 private:
  void refresh(Deadline deadline);
  void set_peers(const std::map<int, ServerRecord>& servers);
  void recover(int region, std::uint64_t epoch, bool lost, Deadline deadline);
  void ask_backup(int region, const Lineup& lineup, Deadline deadline);
  int leader_of(int region) const;

  const Shape shape_;
  Directory directory_;
  std::unique_ptr<rpc::Endpoint> endpoint_;

  mutable std::mutex mutex_;
  std::vector<std::optional<Lineup>> lineups_; // guarded by mutex_
  std::map<int, ServerRecord> servers_;        // guarded by mutex_
  std::uint64_t num_failovers_ = 0;            // guarded by mutex_
};

} // namespace argosy::ps
