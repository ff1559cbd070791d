#include "argosy/comm/flight/record_files.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "argosy/comm/flight/record_json.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/text.h"

namespace argosy::comm::flight {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kAttempt = "attempt_";

std::vector<fs::path> record_paths(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_flight_record(entry.path())) {
      paths.push_back(entry.path());
    }
  }
  ARGOSY_CHECK(
      !error, "[flight.read] {}: {}", folder.string(), error.message());
  return paths;
}

// Attempts of a run, the last first.
std::vector<fs::path> attempts_in(const fs::path& folder) {
  std::vector<std::pair<long long, fs::path>> attempts;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kAttempt)) {
      const auto number = parse_int(name.substr(kAttempt.size()));
      attempts.emplace_back(number.value_or(-1), entry.path());
    }
  }
  std::sort(attempts.rbegin(), attempts.rend());
  std::vector<fs::path> paths;
  for (auto& [number, path] : attempts) {
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<fs::path> records_or_of_last_attempt(const fs::path& folder) {
  std::vector<fs::path> paths = record_paths(folder);
  if (!paths.empty()) {
    return paths;
  }
  for (const fs::path& attempt : attempts_in(folder)) {
    paths = record_paths(attempt);
    if (!paths.empty()) {
      return paths;
    }
  }
  return {};
}

// A folder may hold files of earlier jobs: those that are not of the newest.
void drop_earlier(std::vector<Record>& records) {
  const auto newest = std::ranges::max_element(
      records,
      [](const Record& a, const Record& b) { return a.time_us < b.time_us; });
  if (newest == records.end()) {
    return;
  }
  const auto job = [](const Record& record) {
    return std::tuple(record.run_id, record.restart_count, record.world_size);
  };
  std::erase_if(records, [&, its = job(*newest)](const Record& record) {
    return job(record) != its;
  });
}

// Whether so many ranks (0: all of the world) have written since `time_us`.
bool are_newer(
    const std::vector<Record>& records, std::int64_t time_us, int num_ranks) {
  const auto newer = std::ranges::count_if(
      records, [&](const Record& each) { return each.time_us >= time_us; });
  return !records.empty() &&
      newer >= (num_ranks > 0 ? num_ranks : records.front().world_size);
}

} // namespace

void request_records(const fs::path& folder) {
  write_file(folder / kRequestName, "");
}

std::vector<Record> read_records(const std::vector<fs::path>& folders) {
  std::vector<Record> records;
  for (const fs::path& folder : folders) {
    for (const fs::path& path : records_or_of_last_attempt(folder)) {
      if (const auto content = read_file(path)) {
        records.push_back(parse_record(*content, path.string()));
      }
    }
  }
  drop_earlier(records);
  std::ranges::sort(records, [](const Record& a, const Record& b) {
    return a.rank < b.rank;
  });
  for (std::size_t i = 1; i < records.size(); ++i) {
    ARGOSY_CHECK(
        records[i].rank != records[i - 1].rank,
        "[flight.read] two records of rank {}; give folders of one attempt of "
        "one job",
        records[i].rank);
  }
  return records;
}

void renew_records(
    const std::vector<fs::path>& folders, Deadline deadline, int num_ranks) {
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  for (const fs::path& folder : folders) {
    const auto attempts = attempts_in(folder);
    request_records(attempts.empty() ? folder : attempts.front());
  }
  while (!are_newer(read_records(folders), now, num_ranks) &&
         !deadline.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace argosy::comm::flight
