#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/flight/record.h"
#include "argosy/comm/flight/recorder.h"
#include "argosy/comm/flight/request_watcher.h"
#include "argosy/comm/operation/observer.h"

namespace argosy::comm::flight {

// The rank that writes the record.
struct Identity {
  int rank = 0;
  int world_size = 1;
  int restart_count = 0;
  std::string run_id;
};

struct BlackBoxOptions {
  std::filesystem::path folder{}; // empty: only write() writes
  // How long an operation may wait until somebody says so; zero: for ever.
  std::chrono::milliseconds warning_after{0};
  // Who says so: the launcher, which looks into the folder, or this rank.
  bool launcher_warns = false;
};

// A rank's recorder, and the file that it leaves behind. If it has a folder, it
// writes the record there when the first operation of a group fails, when the
// rank gives up, and when somebody asks for it (request_records()). A rank that
// fails asks all others. Thread-safe.
class BlackBox {
 public:
  BlackBox(Identity identity, BlackBoxOptions options);
  ~BlackBox();

  // To be called when the rank gives up.
  void abort(const std::string& reason);

  Record record() const;

  // Throws SystemError.
  void write(const std::filesystem::path& path) const;

 private:
  friend class GroupRecorder;

  void fail(GroupLog& group, Recorder::Ticket ticket, const std::string& error);
  void leave_record(const std::string& reason);
  void answer_request();
  // Of the watcher's thread.
  void look_for_long_wait();
  void note_waiting(bool waits);
  void warn(const Recorder::LongWait& wait) const;
  // With mutex_ held.
  Record make_record() const;
  void write_to_folder();

  const Identity identity_;
  const BlackBoxOptions options_;
  Recorder recorder_;
  // Of the watcher's thread alone.
  bool noted_waiting_ = false;
  std::optional<std::uint64_t> warned_of_; // the operation's number

  mutable std::mutex mutex_; // only one thread writes at a time
  // Guarded by mutex_.
  std::string reason_;
  std::chrono::steady_clock::time_point written_;

  std::optional<RequestWatcher> watcher_; // last: its thread uses the others
};

// Records what a rank does in one group. Thread-safe.
class GroupRecorder final : public OperationObserver {
 public:
  GroupRecorder(std::shared_ptr<BlackBox> box, int id, std::vector<int> ranks)
      : box_(std::move(box)),
        log_(box_->recorder_.add_group(id, std::move(ranks))) {}

  Token on_issue(const Call& call, const std::vector<int>&) override {
    return box_->recorder_.issue(*log_, call).slot;
  }
  void on_start(Token token) override {
    current_operation() = box_->recorder_.start({token});
  }
  void on_end(Token token, const std::exception* error) override {
    current_operation() = {};
    if (error == nullptr) {
      box_->recorder_.complete({token});
    } else {
      box_->fail(*log_, {token}, error->what());
    }
  }

 private:
  const std::shared_ptr<BlackBox> box_;
  const std::shared_ptr<GroupLog> log_;
};

} // namespace argosy::comm::flight
