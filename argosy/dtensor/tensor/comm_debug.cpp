#include "argosy/dtensor/tensor/comm_debug.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "argosy/common/text.h"
#include "argosy/common/thread_context.h"

namespace argosy {

namespace dtensor {

struct OpScope::Current {
  const std::string* name = nullptr; // of the op that is being carried out
  std::uint64_t count = 0;           // ops so far
};

OpScope::OpScope(const std::string& op)
    : current_(of_thread<Current>()), outer_(current_.name) {
  current_.name = &op;
  ++current_.count;
}

OpScope::~OpScope() {
  current_.name = outer_;
}

std::uint64_t OpScope::count() {
  return of_thread<Current>().count;
}

const std::string& OpScope::current() {
  static const std::string none;
  const std::string* name = of_thread<Current>().name;
  return name == nullptr ? none : *name;
}

} // namespace dtensor

CommDebug::Token CommDebug::on_issue(
    const comm::Call& call, const std::vector<int>& ranks) {
  entries_.push_back(
      {dtensor::OpScope::current(),
       to_string(call.kind),
       static_cast<std::uint64_t>(call.bytes),
       ranks});
  return 0;
}

std::size_t CommDebug::count(std::string_view collective) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_,
      [&](const Entry& entry) { return entry.collective == collective; }));
}

std::uint64_t CommDebug::bytes(std::string_view collective) const {
  std::uint64_t sum = 0;
  for (const Entry& entry : entries_) {
    sum += entry.collective == collective ? entry.bytes : 0;
  }
  return sum;
}

std::string CommDebug::table() const {
  std::vector<std::pair<Entry, int>> kinds;
  for (const Entry& entry : entries_) {
    const auto found = std::ranges::find_if(
        kinds, [&](const auto& each) { return each.first == entry; });
    if (found == kinds.end()) {
      kinds.emplace_back(entry, 1);
    } else {
      ++found->second;
    }
  }
  std::ostringstream out;
  out << "times  collective      bytes         ranks         op\n";
  for (const auto& [entry, times] : kinds) {
    out << std::left << std::setw(7) << times << std::setw(16)
        << entry.collective << std::setw(14) << entry.bytes << std::setw(14)
        << ranges_text(entry.ranks) << (entry.op.empty() ? "-" : entry.op)
        << "\n";
  }
  return out.str();
}

} // namespace argosy
