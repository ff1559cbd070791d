#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/flight/operation.h"
#include "argosy/comm/flight/recorder.h"
#include "argosy/comm/flight/request_watcher.h"

namespace argosy::comm::flight {

// Who writes the record.
struct Identity {
  int rank = 0;
  int world_size = 1;
  int restart_count = 0;
  std::string run_id;
};

// A rank's recorder, and the file that it leaves behind. With a folder, the
// record is written there when the first operation of a group fails, when the
// rank gives up, and when somebody asks for it (request_records()); whoever
// fails asks all others. Thread-safe.
class BlackBox {
 public:
  // An empty folder: nothing is written but for write().
  BlackBox(Identity identity, std::filesystem::path folder);
  ~BlackBox();

  std::shared_ptr<GroupLog> add_group(int id, std::vector<int> ranks) {
    return recorder_.add_group(id, std::move(ranks));
  }

  Recorder::Ticket issue(GroupLog& group, const Call& call) {
    return recorder_.issue(group, call);
  }

  // Runs an operation and notes when it starts and how it ends.
  template <typename F>
  void run(GroupLog& group, Recorder::Ticket ticket, const F& operation) {
    recorder_.start(ticket);
    try {
      operation();
    } catch (const std::exception& error) {
      fail(group, ticket, error.what());
      throw;
    }
    recorder_.complete(ticket);
  }

  // The rank gives up.
  void abort(const std::string& reason);

  Record record() const;

  // Throws SystemError.
  void write(const std::filesystem::path& path) const;

 private:
  void fail(GroupLog& group, Recorder::Ticket ticket, const std::string& error);
  void leave_record(const std::string& reason);
  void answer_request();
  // With mutex_ held.
  Record make_record() const;
  void write_to_folder();

  const Identity identity_;
  const std::filesystem::path folder_;
  Recorder recorder_;

  mutable std::mutex mutex_; // one writes at a time
  // Guarded by mutex_.
  std::string reason_;
  std::chrono::steady_clock::time_point written_;

  std::optional<RequestWatcher> watcher_; // last: its thread uses the others
};

} // namespace argosy::comm::flight
