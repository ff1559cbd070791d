#include "argosy/launch/hang_notice.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/log.h"
#include "argosy/launch/shell.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

// All workers that wait ask at nearly the same time; one answer serves all.
constexpr milliseconds kQuiet{2000};

// How long other nodes may take to answer, and how often to look whether they
// have.
constexpr milliseconds kAnswerLimit{2500};
constexpr milliseconds kPoll{50};

} // namespace

HangNotice::HangNotice(Setup setup) : setup_(std::move(setup)) {
  if (!setup_.reader.collect || setup_.folder.empty() ||
      setup_.after.count() == 0) {
    return;
  }
  try {
    std::filesystem::create_directories(setup_.folder);
    events_.emplace(setup_.folder);
    if (setup_.share != nullptr) {
      answered_ = setup_.share->last_ask(false); // what others asked before
    }
  } catch (const std::exception& error) {
    log::warn("[launch.hang] a hang will not be noticed: ", error.what());
  }
}

int HangNotice::fd() const {
  return events_ ? events_->fd() : -1;
}

bool HangNotice::looks_by_itself() const {
  return events_ && setup_.share != nullptr &&
      setup_.share->look_every().count() > 0;
}

milliseconds HangNotice::wait_time(milliseconds most) const {
  if (round_) {
    return std::min(most, kPoll);
  }
  if (looks_by_itself()) {
    most = std::min(most, next_look_.remaining(most));
  }
  return asked_ ? std::min(most, quiet_until_.remaining(most)) : most;
}

void HangNotice::look() {
  if (!events_) {
    return;
  }
  const std::vector<std::string> written = events_->take();
  asked_ = asked_ || std::ranges::count(written, kFlightHangName) > 0;
  // Whoever asks has probably been asked as well.
  const bool due = looks_by_itself() && (round_ || next_look_.expired());
  answer_others(due);
  if (due) {
    next_look_ = Deadline::after(setup_.share->look_every());
  }
  if (asked_ && !round_ && quiet_until_.expired()) {
    asked_ = false;
    quiet_until_ = Deadline::after(kQuiet);
    round_ = begin_round();
  }
  if (round_) {
    // Somewhat less: a worker's clock need not agree with its record's.
    end_round(Job::Runs, setup_.after * 9 / 10);
  }
}

void HangNotice::before_end() {
  if (!events_ || !has_flight_wait(setup_.folder)) {
    return;
  }
  round_ = begin_round();
  while (round_) {
    end_round(Job::Ends, noted_wait(setup_.after) / 2);
    if (round_) {
      // Others may end at the same time, and ask.
      answer_others(true);
      std::this_thread::sleep_for(kPoll);
    }
  }
}

std::string HangNotice::collect() const {
  try {
    return setup_.reader.collect(setup_.folder, setup_.num_workers);
  } catch (const std::exception& error) {
    log::warn("[launch.hang] ", error.what());
    return "";
  }
}

std::optional<HangNotice::Round> HangNotice::begin_round() {
  Round round{
      .ask = setup_.share == nullptr ? 0 : setup_.share->ask(),
      .own = collect(),
      .deadline = Deadline::after(kAnswerLimit)};
  if (round.ask > 0) {
    answered_ = std::max(answered_, round.ask);
    setup_.share->answer(round.ask, round.own);
  }
  return round;
}

void HangNotice::answer_others(bool look) {
  const int ask = setup_.share == nullptr ? 0 : setup_.share->last_ask(look);
  if (ask > answered_) {
    answered_ = ask;
    setup_.share->answer(ask, collect());
  }
}

// Prints when all nodes have answered, or when the time is over.
void HangNotice::end_round(Job job, milliseconds at_least) {
  std::vector<std::string> records;
  if (round_->ask > 0) {
    HangShare::Answers others = setup_.share->answers_to(round_->ask);
    if (!others.is_complete && !round_->deadline.expired()) {
      return;
    }
    records = std::move(others.records);
  }
  records.push_back(round_->own);
  round_.reset();
  print(records, at_least, job);
}

// Says of which nodes nothing is known.
std::string HangNotice::silence_text(int answers) const {
  const int silent = setup_.num_nodes - answers;
  if (silent <= 0) {
    return "";
  }
  return str(
      "argosy run: nothing is known of the ranks of ",
      silent,
      silent == 1 ? " other node: " : " other nodes: ",
      setup_.share != nullptr
          ? "their launchers did not answer\n"
          : "launchers ask each other if they have --rdzv-endpoint, or if "
            "ARGOSY_STORE is an etcd\n");
}

void HangNotice::print(
    const std::vector<std::string>& records, milliseconds at_least, Job job) {
  std::string text;
  try {
    text = setup_.reader.describe(records, at_least);
  } catch (const std::exception& error) {
    log::warn("[launch.hang] ", error.what());
  }
  if (text.empty() || (text == last_ && job == Job::Runs)) {
    return;
  }
  last_ = text;
  has_printed_ = true;
  std::cerr << "argosy run: the job seems to hang:\n"
            << text << silence_text(static_cast<int>(records.size()))
            << "argosy run: for more: argosy trace hang "
            << (job == Job::Runs ? "--fresh " : "")
            << shell_join({setup_.folder})
            << (setup_.num_nodes == 1 ? ""
                                      : " and the folders of the other nodes")
            << std::endl;
}

} // namespace argosy::launch
