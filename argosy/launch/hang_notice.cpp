#include "argosy/launch/hang_notice.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

#include "argosy/common/flight_file.h"
#include "argosy/common/log.h"
#include "argosy/launch/shell.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

// All workers that wait ask at nearly the same time; one answer serves all.
constexpr milliseconds kQuiet{2000};

} // namespace

HangNotice::HangNotice(Setup setup) : setup_(std::move(setup)) {
  if (!setup_.describe || setup_.folder.empty() || setup_.after.count() == 0) {
    return;
  }
  try {
    std::filesystem::create_directories(setup_.folder);
    events_.emplace(setup_.folder);
  } catch (const std::exception& error) {
    log::warn("[launch.hang] a hang will not be noticed: ", error.what());
  }
}

int HangNotice::fd() const {
  return events_ ? events_->fd() : -1;
}

milliseconds HangNotice::wait_time(milliseconds most) const {
  return asked_ ? std::min(most, quiet_until_.remaining(most)) : most;
}

void HangNotice::look() {
  if (!events_) {
    return;
  }
  const std::vector<std::string> written = events_->take();
  asked_ = asked_ || std::ranges::count(written, kFlightHangName) > 0;
  if (asked_ && quiet_until_.expired()) {
    asked_ = false;
    // Somewhat less: a worker's clock need not agree with its record's.
    print(setup_.after * 9 / 10, Job::Runs);
    quiet_until_ = Deadline::after(kQuiet);
  }
}

void HangNotice::before_end() {
  if (events_ && has_flight_wait(setup_.folder)) {
    print(noted_wait(setup_.after) / 2, Job::Ends);
  }
}

void HangNotice::print(milliseconds at_least, Job job) {
  std::string text;
  try {
    text = setup_.describe(setup_.folder, at_least);
  } catch (const std::exception& error) {
    log::warn("[launch.hang] ", error.what());
  }
  if (text.empty() || (text == last_ && job == Job::Runs)) {
    return;
  }
  last_ = text;
  has_printed_ = true;
  std::cerr << "argosy run: the job seems to hang:\n"
            << text << "argosy run: for more: argosy trace hang "
            << (job == Job::Runs ? "--fresh " : "")
            << shell_join({setup_.folder})
            << (setup_.is_one_node ? "" : " and the folders of the other nodes")
            << std::endl;
}

} // namespace argosy::launch
