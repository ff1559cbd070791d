#include "argosy/comm/flight/black_box.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/record_files.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/log.h"
#include "argosy/common/net.h"
#include "argosy/common/rank_label.h"
#include "argosy/launch/shell.h"

namespace argosy::comm::flight {

namespace {

// Many ranks may fail and ask at once; one answer serves all.
constexpr std::chrono::milliseconds kFresh{500};

// Often enough to be nearly in time, rarely enough to cost nothing. Zero if
// nobody is to be warned.
std::chrono::milliseconds tick_of(std::chrono::milliseconds warning_after) {
  if (warning_after.count() == 0) {
    return warning_after;
  }
  return std::min(
      noted_wait(warning_after) / 2 + std::chrono::milliseconds(1),
      std::chrono::milliseconds(1000));
}

} // namespace

BlackBox::BlackBox(Identity identity, BlackBoxOptions options)
    : identity_(std::move(identity)), options_(std::move(options)) {
  const auto& [folder, warning_after, launcher_warns] = options_;
  if (folder.empty() && warning_after.count() == 0) {
    return;
  }
  try {
    if (!folder.empty()) {
      std::filesystem::create_directories(folder);
      // What an earlier job left there would be taken for ours.
      std::filesystem::remove(folder / flight_record_name(identity_.rank));
      std::filesystem::remove(folder / flight_wait_name(identity_.rank));
      std::filesystem::remove(exit_note_path(folder, identity_.rank));
    }
    watcher_.emplace(RequestWatcher::Setup{
        .folder = folder,
        .on_request = [this] { answer_request(); },
        .tick = tick_of(warning_after),
        .on_tick = [this] { look_for_long_wait(); }});
  } catch (const std::exception& error) {
    log::warn("[flight] records will not be asked for: ", error.what());
  }
}

BlackBox::~BlackBox() {
  watcher_.reset();
  note_waiting(false);
}

Record BlackBox::make_record() const {
  Record record = recorder_.snapshot();
  record.rank = identity_.rank;
  record.world_size = identity_.world_size;
  record.restart_count = identity_.restart_count;
  record.run_id = identity_.run_id;
  record.host = host_name();
  record.pid = ::getpid();
  record.reason = reason_;
  return record;
}

Record BlackBox::record() const {
  const std::lock_guard lock(mutex_);
  return make_record();
}

void BlackBox::write(const std::filesystem::path& path) const {
  const std::lock_guard lock(mutex_);
  write_file(path, to_json(make_record()));
}

void BlackBox::write_to_folder() {
  try {
    write_file(
        options_.folder / flight_record_name(identity_.rank),
        to_json(make_record()));
    written_ = std::chrono::steady_clock::now();
  } catch (const std::exception& error) {
    log::warn("[flight] the record is not written: ", error.what());
  }
}

void BlackBox::answer_request() {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() - written_ > kFresh) {
    write_to_folder();
  }
}

void BlackBox::leave_record(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    reason_ = reason;
    if (options_.folder.empty()) {
      return;
    }
    write_to_folder();
  }
  try {
    // Without the lock: our own watcher gets the request too, and takes it.
    request_records(options_.folder);
  } catch (const std::exception& error) {
    log::warn("[flight] the others are not asked: ", error.what());
  }
}

void BlackBox::look_for_long_wait() {
  const auto wait = recorder_.longest_wait();
  note_waiting(wait && wait->time >= noted_wait(options_.warning_after));
  if (wait && wait->time >= options_.warning_after &&
      warned_of_ != wait->operation.number) {
    warned_of_ = wait->operation.number;
    warn(*wait);
  }
}

void BlackBox::note_waiting(bool waits) {
  if (options_.folder.empty() || noted_waiting_ == waits) {
    return;
  }
  noted_waiting_ = waits;
  const auto path = options_.folder / flight_wait_name(identity_.rank);
  try {
    if (waits) {
      write_file(path, "");
    } else {
      std::filesystem::remove(path);
    }
  } catch (const std::exception& error) {
    log::warn("[flight] ", error.what());
  }
}

void BlackBox::warn(const Recorder::LongWait& wait) const {
  set_rank_label(identity_.rank, identity_.world_size); // of this thread
  const std::string folder = options_.folder.string();
  try {
    if (options_.launcher_warns && !folder.empty()) {
      write_file(options_.folder / kFlightHangName, "");
      return;
    }
  } catch (const std::exception& error) {
    log::warn("[flight] the launcher is not told: ", error.what());
  }
  log::warn(
      "[comm] this rank waits for {} in {}. To find the rank that it waits "
      "for: {}",
      duration_text(std::chrono::floor<std::chrono::seconds>(wait.time)),
      place_text(wait.operation),
      folder.empty()
          ? "set ARGOSY_FLIGHT_DIR to a folder on all ranks, or start them "
            "with argosy run"
          : str("argosy trace hang --fresh ", launch::shell_quote(folder)));
}

void BlackBox::fail(
    GroupLog& group, Recorder::Ticket ticket, const std::string& error) {
  recorder_.fail(ticket, error);
  if (group.is_first_failure()) {
    leave_record(str("an operation of group ", group.id(), " failed: ", error));
  }
}

void BlackBox::abort(const std::string& reason) {
  leave_record(str("the rank gave up: ", reason));
}

} // namespace argosy::comm::flight
