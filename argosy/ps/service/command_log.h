#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/rpc/message.h"

namespace argosy::ps {

// The commands of a region in a file, so that a server which was killed
// finds them when it comes back. Beside it lies the last snapshot; the log
// begins where that ends. What append() has returned from survives the death
// of the process; with `sync` also that of the machine. One thread at a time.
class CommandLog {
 public:
  // Opens the log of a region in `folder`, which is created. Throws
  // SystemError.
  CommandLog(std::filesystem::path folder, int region, bool sync);
  ~CommandLog();
  CommandLog(const CommandLog&) = delete;
  CommandLog& operator=(const CommandLog&) = delete;

  // The last snapshot; nullopt if there is none.
  std::optional<std::string> read_snapshot() const;

  // Calls `apply` with each command after the snapshot, in order. Stops at a
  // record that was not written to its end, and cuts it off. To be called once,
  // before append().
  void replay(
      const std::function<void(std::uint64_t number, const rpc::Message&)>&
          apply);

  // Throws SystemError; the log is then unchanged.
  void append(std::uint64_t number, const rpc::Message& command);

  // A snapshot that is written beside traffic. begin marks the state that it
  // has: commands appended later are replayed after it. The old snapshot counts
  // until commit; without commit nothing happens.
  void begin_snapshot();
  void write_snapshot(std::string_view bytes);
  void commit_snapshot();
  void abort_snapshot();

  // Removes snapshot and log.
  void clear();

  // Of the records since the last begin_snapshot().
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::filesystem::path path_of(
      std::uint64_t generation, const char* ending) const;
  std::vector<std::uint64_t> generations(const char* ending) const;
  void open_log(std::uint64_t generation);
  void close_files();
  void remove_before(std::uint64_t generation) const;

  std::filesystem::path folder_;
  int region_;
  bool sync_;
  std::uint64_t snapshot_ = 0;   // the generation of the last one; 0: none
  std::uint64_t generation_ = 0; // of the log that is appended to
  int fd_ = -1;
  int snapshot_fd_ = -1; // of the one that is being written
  std::uint64_t bytes_ = 0;
};

} // namespace argosy::ps
