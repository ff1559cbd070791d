#include "argosy/comm/member_watch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <utility>

#include "argosy/comm/backend/abort_note.h"
#include "argosy/comm/group_lists.h"
#include "argosy/common/error.h"
#include "argosy/common/exit_note.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/text.h"
#include "argosy/world/process_identity.h"
#include "argosy/world/rendezvous.h"

namespace argosy::comm {

namespace {

std::string come_key(int member) {
  return str("come/", member);
}

std::string step_key(int member) {
  return str("step/", member);
}

} // namespace

MemberWatch::MemberWatch(Members members, WatchedStores stores)
    : members_(std::move(members)),
      stores_(std::move(stores)),
      has_come_(static_cast<std::size_t>(members_.size()), false) {}

void MemberWatch::come() {
  members_.store->set(come_key(members_.rank), {'1'});
  fault_point("comm.come");
}

void MemberWatch::advance() {
  const std::string steps = std::to_string(++num_steps_);
  members_.store->set(step_key(members_.rank), {steps.begin(), steps.end()});
}

// Those that have made the fewest steps, unless all have made as many: the
// others wait for them.
std::vector<int> MemberWatch::behind() {
  std::map<long long, std::vector<int>> by_steps;
  for (int member = 0; member < members_.size(); ++member) {
    long long steps = 0;
    if (members_.store->check({step_key(member)})) {
      const auto value = members_.store->get(step_key(member));
      steps = parse_int(std::string(value.begin(), value.end())).value_or(0);
    }
    by_steps[steps].push_back(member);
  }
  return by_steps.size() < 2 ? std::vector<int>() : by_steps.begin()->second;
}

std::vector<int> MemberWatch::missing() {
  std::vector<int> result;
  for (int member = 0; member < members_.size(); ++member) {
    const auto index = static_cast<std::size_t>(member);
    has_come_[index] =
        has_come_[index] || members_.store->check({come_key(member)});
    if (!has_come_[index]) {
      result.push_back(member);
    }
  }
  return result;
}

// As global ranks.
std::string MemberWatch::text_of(const std::vector<int>& members) const {
  std::vector<int> global;
  for (const int member : members) {
    global.push_back(members_.global_ranks[static_cast<std::size_t>(member)]);
  }
  return ranges_text(global);
}

// The pid of a member whose process is known to have ended.
std::optional<int> MemberWatch::ended(int member) {
  std::string& process = process_[member];
  if (process.empty()) {
    const std::string key =
        process_key(members_.global_ranks[static_cast<std::size_t>(member)]);
    if (!stores_.world->check({key})) {
      return std::nullopt;
    }
    const auto value = stores_.world->get(key);
    process.assign(value.begin(), value.end());
  }
  return ended_process(process);
}

// As a predicate. A process that ends in order leaves the world, one that is
// killed does not.
std::string MemberWatch::ending_of(int rank) {
  const std::string how = how_rank_ended(rank);
  if (!how.empty()) {
    return how;
  }
  return stores_.world->check({departure_key(rank)}) ? "has left" : "died";
}

// A member may also end while it connects, so all are asked. Others may have
// followed the first that died, so all that have ended are named.
std::exception_ptr MemberWatch::deaths() {
  std::map<std::string, std::vector<int>> gone; // by what became of them
  std::vector<std::string> pids;
  for (int member = 0; member < members_.size(); ++member) {
    if (const auto pid = ended(member)) {
      const int rank = members_.global_ranks[static_cast<std::size_t>(member)];
      gone[ending_of(rank)].push_back(rank);
      pids.push_back(std::to_string(*pid));
    }
  }
  if (gone.empty()) {
    return nullptr;
  }
  std::vector<std::string> parts;
  for (auto& [how, ranks] : gone) {
    std::sort(ranks.begin(), ranks.end());
    parts.push_back(gone_text(ranks, members_.group, how));
  }
  return std::make_exception_ptr(PeerLost(str_format(
      "[comm.connect] {} before the group was connected: {}",
      join(parts, " and "),
      pids.size() == 1 ? str("process ", pids[0], " has ended")
                       : str("processes ", join(pids, ", "), " have ended"))));
}

std::exception_ptr MemberWatch::difference_of_lists() const {
  const auto text =
      stores_.lists ? comm::difference_of_lists(*stores_.lists) : std::nullopt;
  return text ? std::make_exception_ptr(InvalidArgument(*text)) : nullptr;
}

std::exception_ptr MemberWatch::trouble() {
  if (auto error = difference_of_lists()) {
    return error;
  }
  if (!stores_.world) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  for (const int member : missing()) {
    const int rank = members_.global_ranks[static_cast<std::size_t>(member)];
    // In this order: a rank that has left may have come before.
    if (stores_.world->check({departure_key(rank)}) &&
        !members_.store->check({come_key(member)})) {
      return std::make_exception_ptr(PeerLost(str_format(
          "[comm.connect] rank {} of group {} has left the world and never "
          "came to the group's first operation",
          text_of({member}),
          members_.group)));
    }
  }
  return deaths();
}

std::chrono::microseconds MemberWatch::interval() const {
  constexpr std::chrono::microseconds kLeast = std::chrono::milliseconds(100);
  // At worst half of them ask two questions about the other half.
  const std::chrono::microseconds asked(
      25 * std::int64_t{members_.size()} * members_.size());
  return std::max(kLeast, asked);
}

std::exception_ptr MemberWatch::no_answer() const {
  return std::make_exception_ptr(TimeoutError(str_format(
      "[comm.connect] the members of group {} did not connect within {}: the "
      "store where they meet, or their network, does not answer",
      members_.group,
      members_.deadline.limit_text())));
}

std::exception_ptr MemberWatch::aborted() const {
  if (members_.abort_note == nullptr || !members_.abort_note->is_written()) {
    return nullptr;
  }
  return std::make_exception_ptr(PeerLost(str_format(
      "[comm] group {} was aborted: {}",
      members_.group,
      members_.abort_note->reason())));
}

void MemberWatch::give_up(std::exception_ptr error) {
  const std::lock_guard lock(end_mutex_);
  end_ = std::move(error);
}

std::exception_ptr MemberWatch::given_up() const {
  {
    const std::lock_guard lock(end_mutex_);
    if (end_) {
      return end_;
    }
  }
  return aborted();
}

std::exception_ptr MemberWatch::time_is_up() {
  const std::lock_guard lock(mutex_);
  const std::vector<int> absent = missing();
  const std::vector<int> who = absent.empty() ? behind() : absent;
  return std::make_exception_ptr(TimeoutError(str_format(
      "[comm.connect] {} of group {} did not {} within {}",
      who.empty() ? "a rank" : str("rank ", text_of(who)),
      members_.group,
      absent.empty() ? "connect" : "come to the group's first operation",
      members_.deadline.limit_text())));
}

} // namespace argosy::comm
