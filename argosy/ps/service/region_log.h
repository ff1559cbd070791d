#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/ps/service/command_log.h"
#include "argosy/ps/service/directory.h"
#include "argosy/ps/service/log_options.h"

namespace argosy::ps {

class RegionState;
struct Command;

// A region's log, or none: then all methods do nothing. One thread at a time.
//
// Beside the log lies a note of whose it is: the incarnations of the server
// that had all commands of the log, and the epoch. Only these may recover from
// it; the log of a replica that had not caught up is worth nothing.
class RegionLog {
 public:
  RegionLog(const LogOptions& options, int region);

  bool on() const { return log_ != nullptr; }

  // What the log has; nullopt: nothing to recover from. `number` of the
  // position is known after recover() only.
  std::optional<LogPosition> position() const;

  // Whether the log has all that this run of the server had.
  bool belongs_to(std::uint64_t incarnation) const;

  // Fills `state` and returns the number of the last command.
  std::uint64_t recover(RegionState& state);

  // Who may recover from the log from now on; none while a replica catches up.
  void set_owners(std::vector<std::uint64_t> incarnations, std::uint64_t epoch);

  void append(std::uint64_t number, const rpc::Message& command);
  void clear();

  // A snapshot: pieces of a region's state, in their order.
  bool wants_snapshot() const;
  void begin_snapshot(std::uint64_t number);
  void add_header(std::string_view header);
  void add_rows(std::uint32_t table, std::string_view rows);
  void commit_snapshot();
  void abort_snapshot();

 private:
  void read_note();
  void add_piece(std::uint32_t table, std::string_view bytes);

  LogOptions options_;
  std::filesystem::path note_path_;
  std::unique_ptr<CommandLog> log_;
  std::vector<std::uint64_t> owners_;
  std::uint64_t epoch_ = 0;
  std::uint64_t last_number_ = 0;
};

} // namespace argosy::ps
