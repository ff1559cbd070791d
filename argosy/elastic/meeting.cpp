#include "argosy/elastic/meeting.h"

#include <algorithm>
#include <map>
#include <utility>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/text.h"

namespace argosy::elastic {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Of a call to the store.
Deadline call() {
  return Deadline::after(std::chrono::seconds(30));
}

// Ranks usually come together; a replacement takes a second to start.
Backoff polls() {
  return Backoff(microseconds(200), milliseconds(10));
}

// Not a number: the rank has not come.
constexpr std::int64_t kAbsent = -2;

std::vector<int> ranks_with(
    const std::vector<std::int64_t>& values, std::int64_t value) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] == value) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

} // namespace

Meeting::Meeting(
    std::shared_ptr<store::Kv> kv, std::string space, int rank, int size)
    : kv_(std::move(kv)), space_(std::move(space)), rank_(rank), size_(size) {}

std::string Meeting::key(const std::string& name) const {
  return str(space_, "elastic/", name);
}

std::string Meeting::key(std::int64_t epoch, const std::string& name) const {
  return key(str(epoch, "/", name));
}

std::int64_t Meeting::current() {
  return kv_->add(key("epoch"), 0, call());
}

bool Meeting::has_ended(std::int64_t epoch) {
  return current() > epoch;
}

void Meeting::end(std::int64_t epoch) {
  // Those who find the same failure together move on by one.
  kv_->compare_set(
      key("epoch"), std::to_string(epoch), std::to_string(epoch + 1), call());
}

bool Meeting::comes_first(std::int64_t epoch) {
  return kv_->add(key(epoch, str("came/", rank_)), 1, call()) == 1;
}

std::vector<std::int64_t> Meeting::applied_in(std::int64_t epoch) {
  const std::string prefix = key(epoch, "applied/");
  std::vector<std::int64_t> applied(static_cast<std::size_t>(size_), kAbsent);
  for (const auto& [name, value] : kv_->list(prefix, call())) {
    const auto rank = parse_int(name.substr(prefix.size()));
    applied.at(static_cast<std::size_t>(rank.value_or(size_))) =
        parse_int(value).value_or(kAbsent);
  }
  return applied;
}

// False if the epoch ends before.
bool Meeting::all_come(std::int64_t epoch, const Deadline& deadline) {
  Backoff backoff = polls();
  while (true) {
    const auto missing = ranks_with(applied_in(epoch), kAbsent);
    if (missing.empty()) {
      return true;
    }
    if (has_ended(epoch) || unfinished().empty()) {
      return false;
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[elastic.meet] rank {} of {} did not come to continue the job "
          "within {}, expected the launcher to start it again",
          ranges_text(missing),
          size_,
          deadline.limit_text()));
    }
    backoff.pause(deadline);
  }
}

// False if the epoch ends before.
bool Meeting::get_records(
    Met& met, const std::string& own, const Deadline& deadline) {
  if (met.plan.source < 0) {
    return true;
  }
  const std::string place = key(met.epoch, "records");
  if (met.plan.source == rank_) {
    kv_->set(place, own, call());
    met.records = own;
    return true;
  }
  Backoff backoff = polls();
  while (true) {
    if (auto records = kv_->get(place, call())) {
      met.records = std::move(*records);
      return true;
    }
    if (has_ended(met.epoch)) {
      return false;
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[elastic.meet] rank {} did not say within {} how to continue",
          met.plan.source,
          deadline.limit_text()));
    }
    backoff.pause(deadline);
  }
}

Met Meeting::meet(
    std::int64_t applied,
    const std::string& records,
    const Deadline& deadline) {
  while (true) {
    Met met{.epoch = current()};
    if (unfinished().empty()) {
      ARGOSY_CHECK(
          applied != kNoState,
          "[elastic.meet] rank {} died after all ranks had finished, expected "
          "that nothing fails after run()",
          rank_);
      met.is_over = true;
      return met;
    }
    if (!comes_first(met.epoch)) {
      end(met.epoch);
      continue;
    }
    kv_->set(
        key(met.epoch, str("applied/", rank_)),
        std::to_string(applied),
        call());
    fault_point("elastic.came");
    if (!all_come(met.epoch, deadline)) {
      continue;
    }
    met.plan = plan_recovery(applied_in(met.epoch));
    if (get_records(met, records, deadline)) {
      return met;
    }
  }
}

std::vector<int> Meeting::unfinished() {
  const std::string prefix = key("finished/");
  std::vector<std::int64_t> is_finished(static_cast<std::size_t>(size_), 0);
  for (const auto& [name, value] : kv_->list(prefix, call())) {
    const auto rank = parse_int(name.substr(prefix.size()));
    is_finished.at(static_cast<std::size_t>(rank.value_or(size_))) = 1;
  }
  return ranks_with(is_finished, 0);
}

bool Meeting::finish(std::int64_t epoch, const Deadline& deadline) {
  kv_->set(key(str("finished/", rank_)), "1", call());
  fault_point("elastic.finished");
  Backoff backoff = polls();
  while (true) {
    const auto working = unfinished();
    if (working.empty()) {
      return true;
    }
    if (has_ended(epoch)) {
      return false;
    }
    if (deadline.expired()) {
      throw TimeoutError(str_format(
          "[elastic.finish] rank {} did not finish within {} of this one",
          ranges_text(working),
          deadline.limit_text()));
    }
    backoff.pause(deadline);
  }
}

std::int64_t Meeting::count_death(std::int64_t step) {
  return kv_->add(key(str("deaths/", rank_, "/", step)), 1, call());
}

} // namespace argosy::elastic
