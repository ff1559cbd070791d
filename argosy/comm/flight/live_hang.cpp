#include "argosy/comm/flight/live_hang.h"

#include <algorithm>

#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/record_files.h"

namespace argosy::comm::flight {

namespace {

constexpr std::chrono::seconds kAnswerLimit(1);

// A stall of a job that runs may be an operation that just began.
bool lasts(const Stall& stall, std::int64_t started_before_us) {
  return std::ranges::any_of(stall.waiting, [&](const Stall::Caller& caller) {
    const Operation& operation = caller.operation;
    return operation.state == State::Started &&
        operation.started_us <= started_before_us;
  });
}

} // namespace

std::string describe_hang(
    const std::filesystem::path& folder, std::chrono::milliseconds at_least) {
  renew_records({folder}, Deadline::after(kAnswerLimit));
  const std::vector<Record> records = read_records({folder});
  std::int64_t newest = 0;
  for (const Record& record : records) {
    newest = std::max(newest, record.time_us);
  }
  const std::int64_t before =
      newest - std::chrono::microseconds(at_least).count();
  const HangReport report = find_hang(records);
  const bool hangs = std::ranges::any_of(
      report.stalls, [&](const Stall& stall) { return lasts(stall, before); });
  return hangs ? summary(report) : "";
}

} // namespace argosy::comm::flight
