#include "argosy/comm/flight/live_hang.h"

#include <algorithm>
#include <map>

#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/record_files.h"
#include "argosy/comm/flight/record_json.h"
#include "argosy/common/text.h"

namespace argosy::comm::flight {

namespace {

constexpr std::chrono::seconds kAnswerLimit(1);

// Texts travel through the launchers' store, where values should be small.
constexpr int kMostEnded = 64; // operations of a group

// Without operations that ended long ago.
Record shortened(Record record) {
  std::map<int, int> ended;
  std::vector<Operation> kept;
  for (auto each = record.operations.rbegin(); each != record.operations.rend();
       ++each) {
    const bool is_pending =
        each->state == State::Issued || each->state == State::Started;
    if (is_pending || ++ended[each->group] <= kMostEnded) {
      kept.push_back(std::move(*each));
    }
  }
  record.operations.assign(
      std::make_move_iterator(kept.rbegin()),
      std::make_move_iterator(kept.rend()));
  return record;
}

// One record of each rank, in their order: the newest, because hosts may share
// a folder.
std::vector<Record> records_in(const std::vector<std::string>& texts) {
  std::map<int, Record> by_rank;
  for (const std::string& text : texts) {
    for (const std::string& line : split(text, '\n')) {
      if (line.empty()) {
        continue;
      }
      Record record = parse_record(line, "flight record");
      Record& known = by_rank[record.rank];
      if (known.time_us <= record.time_us) {
        known = std::move(record);
      }
    }
  }
  std::vector<Record> records;
  for (auto& [rank, record] : by_rank) {
    records.push_back(std::move(record));
  }
  return records;
}

// A stall of a job that runs may be an operation that just began. Each time is
// compared with that of the same host.
bool lasts(
    const Stall& stall,
    const std::vector<Record>& records,
    std::chrono::microseconds at_least) {
  return std::ranges::any_of(stall.waiting, [&](const Stall::Caller& caller) {
    const Operation& operation = caller.operation;
    const auto own = std::ranges::find(records, caller.rank, &Record::rank);
    return operation.state == State::Started && own != records.end() &&
        own->time_us - operation.started_us >= at_least.count();
  });
}

} // namespace

std::string collect_records(const std::string& folder, int num_ranks) {
  renew_records({folder}, Deadline::after(kAnswerLimit), num_ranks);
  std::string text;
  for (const Record& record : read_records({folder})) {
    text += to_json(shortened(record)); // a line
  }
  return text;
}

std::string describe_hang(
    const std::vector<std::string>& texts, std::chrono::milliseconds at_least) {
  const std::vector<Record> records = records_in(texts);
  const HangReport report = find_hang(records);
  const bool hangs = std::ranges::any_of(
      report.stalls,
      [&](const Stall& stall) { return lasts(stall, records, at_least); });
  return hangs ? summary(report) : "";
}

} // namespace argosy::comm::flight
