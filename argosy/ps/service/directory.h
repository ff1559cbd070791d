#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/service/lineup.h"

namespace argosy::store {
class Kv;
}

namespace argosy::ps {

// What a log on a server's disk has, to find the newest one of a region when a
// whole job starts again.
struct LogPosition {
  std::uint64_t epoch = 0; // 0: there is no log
  std::uint64_t number = 0;

  auto operator<=>(const LogPosition&) const = default;
};

struct ServerRecord {
  std::uint64_t incarnation = 0;
  std::string address{};             // rpc::Endpoint::address()
  std::map<int, LogPosition> logs{}; // by region

  bool operator==(const ServerRecord&) const = default;
};

std::string to_text(const ServerRecord& record);
// Throws StoreError, showing the text.
ServerRecord server_record_of(std::string_view text);

// What servers and workers of a job tell each other through its store: where
// servers are, and who leads which region. Thread-safe, as the store is. All
// throw StoreError and TimeoutError.
class Directory {
 public:
  // `prefix` tells this job's keys from others'.
  Directory(std::shared_ptr<store::Kv> kv, std::string prefix);

  void register_server(
      int server, const ServerRecord& record, Deadline deadline);
  // Servers that have registered, by index.
  std::map<int, ServerRecord> servers(Deadline deadline);

  std::optional<Lineup> lineup(int region, Deadline deadline);

  // Replaces the lineup if it is still `expected`. Returns the one that is in
  // the store now.
  Lineup replace_lineup(
      int region,
      const std::optional<Lineup>& expected,
      const Lineup& desired,
      Deadline deadline);

  // Numbers incarnations of servers and clients of the job: never the same
  // twice.
  std::uint64_t next_incarnation(Deadline deadline);

  // Whether the workers have ended the job.
  void set_stopped(Deadline deadline);
  bool is_stopped(Deadline deadline);

 private:
  std::string key(const std::string& name) const { return prefix_ + name; }

  std::shared_ptr<store::Kv> kv_;
  std::string prefix_;
};

} // namespace argosy::ps
