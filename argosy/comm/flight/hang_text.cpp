// How a HangReport reads.

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "argosy/comm/flight/hang.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::comm::flight {

using nlohmann::json;

namespace {

// "14:03:07.250"
// In local time, as the program's own logs usually are.
std::string time_text(std::int64_t time_us) {
  const std::time_t seconds = time_us / 1'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> clock{};
  std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
  // The 1000 keeps leading zeros: 7 ms become "1007", then "007".
  const std::string ms = std::to_string(time_us / 1000 % 1000 + 1000);
  return str(clock.data(), ".", ms.substr(1));
}

std::string ranks_text(const std::vector<int>& ranks) {
  return str(ranks.size() == 1 ? "rank " : "ranks ", ranges_text(ranks));
}

std::string state_text(const Operation& operation) {
  switch (operation.state) {
    case State::Issued:
      return str_format(
          "issued at {}, not begun yet", time_text(operation.issued_us));
    case State::Started:
      return str("waits since ", time_text(operation.started_us));
    case State::Completed:
      return str("completed at ", time_text(operation.ended_us));
    case State::Failed:
      return str_format(
          "waited from {} to {}, then failed: {}",
          time_text(operation.started_us),
          time_text(operation.ended_us),
          operation.error);
  }
  return "";
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

void print_callers(
    std::ostream& out,
    const Stall& stall,
    const std::vector<Stall::Caller>& callers) {
  for (const Stall::Caller& caller : callers) {
    out << "  rank " << caller.rank << " "
        << (contains(stall.differ, caller.rank) ? "CALLED SOMETHING ELSE, "
                                                : "called ")
        << to_string(caller.operation.call) << ": "
        << state_text(caller.operation) << "\n";
  }
}

void print_absentee(std::ostream& out, const Stall::Absentee& absentee) {
  out << "  rank " << absentee.rank << " NEVER CALLED IT; ";
  if (absentee.last) {
    out << "its last one here is " << absentee.last->sequence << ", "
        << to_string(absentee.last->call) << ", " << state_text(*absentee.last);
  } else if (absentee.num_issued == 0) {
    out << "it called nothing here";
  } else {
    // A record holds only the latest operations of each group.
    out << "it called " << absentee.num_issued << " here, long ago";
  }
  out << "\n";
  if (absentee.waits_in) {
    out << "      it is in " << place_text(*absentee.waits_in) << ": "
        << state_text(*absentee.waits_in) << "\n";
  }
  if (!absentee.reason.empty()) {
    out << "      its record: " << absentee.reason << "\n";
  }
}

// Names the stall: what the majority called, if one of them waits.
const Operation& any_operation(const Stall& stall) {
  for (const Stall::Caller& caller : stall.waiting) {
    if (!contains(stall.differ, caller.rank)) {
      return caller.operation;
    }
  }
  return stall.waiting.front().operation;
}

// Words in capitals mark the ranks at fault, so that they stand out in a list
// of many ranks: whoever called something else, never called, or left no
// record.
void print_stall(std::ostream& out, const Stall& stall) {
  if (stall.is_message) {
    out << "Message " << stall.sequence << " from rank " << stall.ranks[0]
        << " to rank " << stall.ranks[1] << " in group " << stall.group;
  } else {
    out << "Group " << stall.group << " (" << ranks_text(stall.ranks)
        << "), collective " << stall.sequence;
  }
  out << ": " << to_string(any_operation(stall).call) << "\n";
  print_callers(out, stall, stall.waiting);
  print_callers(out, stall, stall.passed);
  for (const int rank : stall.forgot) {
    out << "  rank " << rank << " passed it long ago\n";
  }
  for (const Stall::Absentee& absentee : stall.absent) {
    print_absentee(out, absentee);
  }
  for (const int rank : stall.unknown) {
    out << "  rank " << rank
        << " LEFT NO RECORD: it ended, was killed, or runs elsewhere\n";
  }
}

void print_verdict(std::ostream& out, const HangReport& report) {
  if (report.stalls.empty()) {
    out << "Nothing hangs: every operation that was issued completed.\n";
  } else if (report.culprits.empty()) {
    out << "All ranks called what does not end, and alike: look at the errors "
           "above.\n";
  } else if (!report.circle.empty()) {
    out << "They wait for each other in a circle: " << ranks_text(report.circle)
        << (report.culprits == report.circle
                ? ""
                : "; most wait for " + ranks_text(report.culprits))
        << ".\n";
  } else {
    out << "The others wait for " << ranks_text(report.culprits) << ".\n";
  }
}

json stalled_json(const Operation& operation) {
  json object = {
      {"call", to_string(operation.call)},
      {"group", operation.group},
      {"sequence", operation.sequence},
      {"state", to_string(operation.state)},
      {"issued_us", operation.issued_us},
      {"started_us", operation.started_us},
      {"ended_us", operation.ended_us}};
  if (!operation.error.empty()) {
    object["error"] = operation.error;
  }
  return object;
}

json callers_json(const std::vector<Stall::Caller>& callers) {
  json list = json::array();
  for (const Stall::Caller& caller : callers) {
    json object = stalled_json(caller.operation);
    object["rank"] = caller.rank;
    list.push_back(std::move(object));
  }
  return list;
}

json absent_json(const std::vector<Stall::Absentee>& absent) {
  json list = json::array();
  for (const Stall::Absentee& absentee : absent) {
    json object = {
        {"rank", absentee.rank},
        {"num_issued", absentee.num_issued},
        {"reason", absentee.reason}};
    if (absentee.last) {
      object["last"] = stalled_json(*absentee.last);
    }
    if (absentee.waits_in) {
      object["waits_in"] = stalled_json(*absentee.waits_in);
    }
    list.push_back(std::move(object));
  }
  return list;
}

json stall_json(const Stall& stall) {
  return {
      {"kind", stall.is_message ? "message" : "collective"},
      {"group", stall.group},
      {"ranks", stall.ranks},
      {"sequence", stall.sequence},
      {"call", to_string(any_operation(stall).call)},
      {"waiting", callers_json(stall.waiting)},
      {"passed", callers_json(stall.passed)},
      {"forgot", stall.forgot},
      {"absent", absent_json(stall.absent)},
      {"unrecorded", stall.unknown},
      {"differ", stall.differ},
      {"blamed", stall.blamed()}};
}

// Who waits since when, of the ranks that did not call something else.
std::string waiting_text(const Stall& stall) {
  std::vector<int> ranks;
  std::int64_t since = 0;
  for (const Stall::Caller& caller : stall.waiting) {
    const std::int64_t started = caller.operation.started_us;
    if (!contains(stall.differ, caller.rank)) {
      ranks.push_back(caller.rank);
      since = since == 0 ? started : std::min(since, started);
    }
  }
  std::ranges::sort(ranks);
  return ranks.empty() ? "nobody waits"
                       : str_format(
                             "{} {} since {}",
                             ranks_text(ranks),
                             ranks.size() == 1 ? "waits" : "wait",
                             time_text(since));
}

std::string awaited_text(const Stall& stall) {
  const std::vector<int> blamed = stall.blamed();
  if (blamed.empty()) {
    return "all of them called it";
  }
  std::string text = str("for ", ranks_text(blamed));
  if (!stall.differ.empty()) {
    text += str("; ", ranks_text(stall.differ), " called something else");
  }
  for (const Stall::Absentee& absentee : stall.absent) {
    if (absentee.waits_in) {
      text += str_format(
          "; rank {} is in {}", absentee.rank, place_text(*absentee.waits_in));
    }
  }
  return text;
}

} // namespace

std::string place_text(const Operation& operation) {
  const char* what =
      is_pairwise(operation.call.kind) ? "message " : "collective ";
  return str(
      to_string(operation.call),
      " (",
      what,
      operation.sequence,
      " of group ",
      operation.group,
      ")");
}

std::string summary(const HangReport& report) {
  std::ostringstream out;
  for (const Stall& stall : report.stalls) {
    out << place_text(any_operation(stall)) << ": " << waiting_text(stall)
        << " " << awaited_text(stall) << "\n";
  }
  print_verdict(out, report);
  return out.str();
}

std::ostream& operator<<(std::ostream& out, const HangReport& report) {
  for (const Stall& stall : report.stalls) {
    print_stall(out, stall);
    out << "\n";
  }
  for (const Unreceived& sent : report.unreceived) {
    out << "Rank " << sent.from << " sent " << sent.count << " message"
        << (sent.count == 1 ? "" : "s") << " (from " << sent.first
        << " on) in group " << sent.group << " that rank " << sent.to
        << " never called recv for.\n";
  }
  if (!report.unrecorded.empty()) {
    out << "Of " << report.world_size << " ranks there is no record of "
        << ranks_text(report.unrecorded) << ".\n";
  }
  print_verdict(out, report);
  return out;
}

std::string to_json(const HangReport& report) {
  json document = {
      {"world_size", report.world_size},
      {"unrecorded", report.unrecorded},
      {"stalls", json::array()},
      {"unreceived", json::array()},
      {"culprits", report.culprits},
      {"circle", report.circle}};
  for (const Stall& stall : report.stalls) {
    document["stalls"].push_back(stall_json(stall));
  }
  for (const Unreceived& sent : report.unreceived) {
    document["unreceived"].push_back(
        {{"group", sent.group},
         {"from", sent.from},
         {"to", sent.to},
         {"first", sent.first},
         {"count", sent.count}});
  }
  // Errors may quote bytes that are not UTF-8, for which dump() would throw.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace argosy::comm::flight
