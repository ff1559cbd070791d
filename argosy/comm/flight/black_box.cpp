#include "argosy/comm/flight/black_box.h"

#include <unistd.h>

#include <utility>

#include "argosy/comm/flight/record_files.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/log.h"
#include "argosy/common/net.h"

namespace argosy::comm::flight {

namespace {

// Many ranks may fail and ask at once; one answer serves all.
constexpr std::chrono::milliseconds kFresh{500};

} // namespace

BlackBox::BlackBox(Identity identity, std::filesystem::path folder)
    : identity_(std::move(identity)), folder_(std::move(folder)) {
  if (folder_.empty()) {
    return;
  }
  try {
    std::filesystem::create_directories(folder_);
    // What an earlier job left there would be taken for ours.
    std::filesystem::remove(folder_ / flight_record_name(identity_.rank));
    watcher_.emplace(folder_, [this] { answer_request(); });
  } catch (const std::exception& error) {
    log::warn("[flight] records will not be asked for: ", error.what());
  }
}

BlackBox::~BlackBox() = default;

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
        folder_ / flight_record_name(identity_.rank), to_json(make_record()));
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
    if (folder_.empty()) {
      return;
    }
    write_to_folder();
  }
  try {
    // Without the lock: our own watcher gets the request too, and takes it.
    request_records(folder_);
  } catch (const std::exception& error) {
    log::warn("[flight] the others are not asked: ", error.what());
  }
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
