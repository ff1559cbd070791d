#include "argosy/launch/summary.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <fstream>
#include <map>
#include <ostream>
#include <set>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/error_file.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/flight_file.h"
#include "argosy/common/net.h"

namespace argosy::launch {

namespace {

// What a summary quotes of a worker's stderr. The limit of bytes cuts huge
// lines, since the store carries the text to other nodes.
constexpr int kTailLines = 20;
constexpr std::streamoff kTailBytes = 16384;

constexpr const char* kNoError =
    "no error was recorded; the output of the process may say more\n"
    "To see the exception here, let main() return argosy::record(train)\n"
    "(Python: decorate main() with "
    "torch.distributed.elastic.multiprocessing.errors.record)";

std::string default_message(const WorkerResult& result) {
  if (result.status.signal != 0) {
    const std::string text = str_format(
        "Signal {} ({}) received by process {}",
        result.status.signal,
        signal_name(result.status.signal),
        result.pid);
    // What an exception that nobody catches ends with.
    return result.status.signal == SIGABRT ? str(text, "; ", kNoError) : text;
  }
  return kNoError;
}

std::optional<ErrorReport> report_of(const WorkerSpec& worker) {
  try {
    return read_error_file(worker.error_file);
  } catch (const SystemError&) {
    return std::nullopt; // it only explains a failure that is known already
  }
}

// When a worker failed. A report with whole seconds may be of any moment in its
// last one: it failed at the latest when the process ended, and must not sort
// before a failure that is known to the millisecond.
std::chrono::system_clock::time_point time_of(
    const ErrorReport& report, std::chrono::system_clock::time_point ended) {
  using std::chrono::system_clock;
  if (report.timestamp_ns > 0) {
    return system_clock::time_point(
        std::chrono::duration_cast<system_clock::duration>(
            std::chrono::nanoseconds(report.timestamp_ns)));
  }
  if (report.timestamp > 0) {
    constexpr std::chrono::milliseconds kRestOfSecond{999};
    return std::min(
        ended,
        system_clock::from_time_t(report.timestamp) +
            system_clock::duration(kRestOfSecond));
  }
  return ended;
}

Failure describe(const WorkerSpec& worker, const WorkerResult& result) {
  Failure failure{
      .host = host_name(),
      .role = worker.identity.role,
      .rank = worker.identity.rank,
      .local_rank = worker.identity.local_rank,
      .pid = result.pid,
      .status = result.status,
      .time = result.ended};
  if (const auto error = report_of(worker)) {
    failure.error_file = worker.error_file;
    failure.message = error->message;
    if (!error->call_stack.empty()) {
      failure.message += "\n" + error->call_stack;
    }
    failure.time = time_of(*error, result.ended);
  } else {
    failure.message = default_message(result);
    failure.output_tail =
        worker.err.file.empty() ? "" : tail_of(worker.err.file, kTailLines);
  }
  return failure;
}

// When the first failed worker ended, and the launcher began to stop the
// others; the end of time if none failed.
std::chrono::system_clock::time_point first_failed_end(const Outcome& outcome) {
  auto first = std::chrono::system_clock::time_point::max();
  for (const WorkerResult& result : outcome.results) {
    first = result.failed() ? std::min(first, result.ended) : first;
  }
  return first;
}

// A worker may fail first and end later than one that lost it. The launcher has
// told it to stop by then, but its report says when it failed.
bool failed_before(
    std::chrono::system_clock::time_point stop,
    const WorkerSpec& worker,
    const WorkerResult& result) {
  if (!result.stopped || result.status.success() ||
      stop == std::chrono::system_clock::time_point::max()) {
    return false;
  }
  const auto report = report_of(worker);
  return report && time_of(*report, result.ended) < stop;
}

// Ranks that a failed worker waited for when they had ended with success: the
// cause, not the worker that failed. The worker's error says so, or, if it
// recorded none, its flight record.
std::set<int> ranks_awaited(const JobPlan& plan, const Failure& failure) {
  std::vector<int> ranks = ranks_that_left(failure.message);
  if (ranks.empty() && failure.error_file.empty()) {
    ranks =
        ranks_that_left(flight_record_reason(plan.flight_dir, failure.rank));
  }
  return {ranks.begin(), ranks.end()};
}

std::vector<Failure> find_who_left(
    const JobPlan& plan,
    const Outcome& outcome,
    const std::vector<Failure>& failures) {
  std::map<int, Failure> found; // by rank
  for (const Failure& failure : failures) {
    const std::set<int> awaited = ranks_awaited(plan, failure);
    for (std::size_t i = 0; i < outcome.results.size(); ++i) {
      const WorkerIdentity& who = plan.workers[i].identity;
      const WorkerResult& result = outcome.results[i];
      if (who.server || !result.status.success() ||
          awaited.count(who.rank) == 0) {
        continue;
      }
      Failure left = describe(plan.workers[i], result);
      left.message = str_format(
          "left with exit code 0, but rank {} still waited for it:\n{}",
          failure.rank,
          failure.message);
      found.emplace(who.rank, std::move(left));
    }
  }
  std::vector<Failure> all;
  for (auto& [rank, failure] : found) {
    all.push_back(std::move(failure));
  }
  return all;
}

// The earliest failure is the likely cause; the others often only lost a peer.
// Those that say so go last: the launcher may hear of a death later than the
// ranks that waited for the dead one.
void put_causes_first(std::vector<Failure>& failures) {
  std::set<int> failed;
  for (const Failure& failure : failures) {
    failed.insert(failure.rank);
  }
  const auto follows = [&](const Failure& failure) {
    const auto blamed = ranks_blamed(failure.message);
    return std::ranges::any_of(blamed, [&](int rank) {
      return rank != failure.rank && failed.contains(rank);
    });
  };
  std::map<int, bool> is_follower; // by rank
  for (const Failure& failure : failures) {
    is_follower[failure.rank] = follows(failure);
  }
  std::ranges::stable_sort(failures, [&](const Failure& a, const Failure& b) {
    return std::pair(is_follower[a.rank], a.time) <
        std::pair(is_follower[b.rank], b.time);
  });
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d_%H:%M:%S", &parts);
  return text.data();
}

void print_indented(std::ostream& out, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    out << "    " << line << "\n";
  }
}

void print_process(std::ostream& out, const Failure& failure) {
  const ProcessStatus& status = failure.status;
  out << "  rank      : " << failure.rank
      << " (local_rank: " << failure.local_rank
      << (failure.role == "default" ? "" : ", role: " + failure.role)
      << ")\n  exitcode  : "
      << (status.signal != 0 ? -status.signal : status.exit_code)
      << " (pid: " << failure.pid << ")\n  error_file: "
      << (failure.error_file.empty() ? "<N/A>" : failure.error_file) << "\n";
}

void print(std::ostream& out, const Failure& failure, std::size_t index) {
  const std::size_t first_line = failure.message.find('\n');
  out << "[" << index << "]:\n  time      : " << time_text(failure.time)
      << "\n  host      : " << failure.host << "\n";
  if (failure.pid != 0) {
    print_process(out, failure);
  }
  out << "  message   : " << failure.message.substr(0, first_line) << "\n";
  if (first_line != std::string::npos) {
    print_indented(out, failure.message.substr(first_line + 1));
  }
  if (!failure.output_tail.empty()) {
    out << "  stderr ends:\n";
    print_indented(out, failure.output_tail);
  }
}

} // namespace

std::vector<Failure> collect_failures(
    const JobPlan& plan, const Outcome& outcome) {
  std::vector<Failure> failures;
  const auto first_end = first_failed_end(outcome);
  for (std::size_t i = 0; i < outcome.results.size(); ++i) {
    if (outcome.results[i].failed() ||
        failed_before(first_end, plan.workers[i], outcome.results[i])) {
      failures.push_back(describe(plan.workers[i], outcome.results[i]));
    }
  }
  put_causes_first(failures);
  // As the records that nodes exchange (node_record.cpp).
  for (Failure& failure : failures) {
    failure.time = std::chrono::floor<std::chrono::milliseconds>(failure.time);
  }
  const auto left = find_who_left(plan, outcome, failures);
  failures.insert(failures.begin(), left.begin(), left.end());
  return failures;
}

std::string summary_text(
    const std::string& program, const std::vector<Failure>& failures) {
  std::ostringstream out;
  const std::string thick(60, '=');
  const std::string thin(60, '-');
  out << thick << "\n" << program << " FAILED\n" << thin << "\n";
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (i == 0) {
      out << "Root Cause (first observed failure):\n";
    } else if (i == 1) {
      out << thin << "\nOther Failures:\n";
    }
    print(out, failures[i], i);
  }
  out << thick << "\n";
  return out.str();
}

std::string tail_of(const std::string& path, int lines) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff(file.tellg()) : 0;
  const std::streamoff begin = std::max<std::streamoff>(0, size - kTailBytes);
  std::string text(static_cast<std::size_t>(size - begin), '\0');
  file.seekg(begin);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // Walks back one line end at a time, not counting that of the last line.
  std::size_t at = text.size() - (text.ends_with('\n') ? 1 : 0);
  for (int i = 0; i < lines && at != std::string::npos && at > 0; ++i) {
    at = text.rfind('\n', at - 1);
  }
  return at == std::string::npos || at == 0 ? text : text.substr(at + 1);
}

} // namespace argosy::launch
