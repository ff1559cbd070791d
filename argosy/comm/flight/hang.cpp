#include "argosy/comm/flight/hang.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace argosy::comm::flight {

namespace {

// Operations that a rank carries out one after the other: the collectives of a
// group, or messages in one direction.
struct Lane {
  int group = 0;
  OpKind kind = OpKind::Barrier; // Send, Recv, or Barrier for any collective
  int peer = -1;

  auto operator<=>(const Lane&) const = default;
};

Lane lane_of(const Operation& operation) {
  const Call& call = operation.call;
  if (is_pairwise(call.kind)) {
    return {operation.group, call.kind, call.root};
  }
  return {operation.group};
}

// One rank's record, by lane.
class View {
 public:
  explicit View(const Record& record) : reason_(record.reason) {
    for (const GroupCounts& group : record.groups) {
      issued_[{group.id}] = group.collectives;
      for (const auto& [peer, sent, received] : group.messages) {
        issued_[{group.id, OpKind::Send, peer}] = sent;
        issued_[{group.id, OpKind::Recv, peer}] = received;
      }
    }
    for (const Operation& operation : record.operations) {
      const Lane lane = lane_of(operation);
      operations_[lane][operation.sequence] = &operation;
      auto& issued = issued_[lane];
      issued = std::max(issued, operation.sequence + 1);
    }
  }

  const std::string& reason() const { return reason_; }

  std::uint64_t num_issued(const Lane& lane) const {
    const auto found = issued_.find(lane);
    return found == issued_.end() ? 0 : found->second;
  }

  const Operation* find(const Lane& lane, std::uint64_t sequence) const {
    const auto in_lane = operations_.find(lane);
    if (in_lane == operations_.end()) {
      return nullptr;
    }
    const auto found = in_lane->second.find(sequence);
    return found == in_lane->second.end() ? nullptr : found->second;
  }

  const Operation* last(const Lane& lane) const {
    const std::uint64_t issued = num_issued(lane);
    return issued == 0 ? nullptr : find(lane, issued - 1);
  }

  // The first that has not completed, in each lane where there is one.
  std::map<Lane, const Operation*> stuck() const {
    std::map<Lane, const Operation*> stuck;
    for (const auto& [lane, operations] : operations_) {
      for (const auto& [sequence, operation] : operations) {
        if (operation->state != State::Completed) {
          stuck[lane] = operation;
          break;
        }
      }
    }
    return stuck;
  }

 private:
  std::string reason_;
  std::map<Lane, std::uint64_t> issued_;
  std::map<Lane, std::map<std::uint64_t, const Operation*>> operations_;
};

// What one rank does for an operation that may need several lanes: a message is
// a Send of one rank and a Recv of the other.
struct Participant {
  int rank = 0;
  Lane lane;
};

// Compares the records of all ranks. For each group and each pair of ranks it
// takes the first operation that some rank has not completed, and sorts the
// ranks by what they did about it. Ranks that are blamed for one stall may wait
// in another; the culprits are those that wait in none.
class Analysis {
 public:
  explicit Analysis(const std::vector<Record>& records) : records_(records) {
    for (const Record& record : records) {
      views_.emplace(record.rank, View(record));
      report_.world_size = record.world_size;
      for (const GroupCounts& group : record.groups) {
        members_[group.id] = group.ranks;
      }
    }
  }

  HangReport run() {
    for (int rank = 0; rank < report_.world_size; ++rank) {
      if (views_.count(rank) == 0) {
        report_.unrecorded.push_back(rank);
      }
    }
    find_stalled_collectives();
    find_stalled_messages();
    find_unreceived();
    name_culprits();
    return std::move(report_);
  }

 private:
  void find_stalled_collectives() {
    for (const auto& [id, ranks] : members_) {
      std::vector<Participant> participants;
      for (const int rank : ranks) {
        participants.push_back({rank, {id}});
      }
      add_first_stall({.group = id, .ranks = ranks}, participants);
    }
  }

  void find_stalled_messages() {
    for (const auto& [from, lane] : pairs()) {
      const int to = lane.peer;
      add_first_stall(
          {.group = lane.group, .ranks = {from, to}, .is_message = true},
          {{from, lane}, {to, {lane.group, OpKind::Recv, from}}});
    }
  }

  // Who sends to whom, from what either end says.
  std::set<std::pair<int, Lane>> pairs() const {
    std::set<std::pair<int, Lane>> found;
    for (const auto& [rank, view] : views_) {
      for (const auto& [lane, operation] : view.stuck()) {
        if (lane.kind == OpKind::Send) {
          found.insert({rank, lane});
        } else if (lane.kind == OpKind::Recv) {
          found.insert({lane.peer, {lane.group, OpKind::Send, rank}});
        }
      }
    }
    return found;
  }

  void add_first_stall(
      Stall stall, const std::vector<Participant>& participants) {
    std::optional<std::uint64_t> first;
    for (const auto& [rank, lane] : participants) {
      const auto view = views_.find(rank);
      if (view == views_.end()) {
        continue;
      }
      const auto stuck = view->second.stuck();
      const auto here = stuck.find(lane);
      if (here != stuck.end()) {
        first = std::min(first.value_or(-1), here->second->sequence);
      }
    }
    if (first) {
      stall.sequence = *first;
      for (const Participant& participant : participants) {
        place(stall, participant);
      }
      stall.differ = different_callers(stall);
      report_.stalls.push_back(std::move(stall));
    }
  }

  void place(Stall& stall, const Participant& participant) const {
    const auto found = views_.find(participant.rank);
    if (found == views_.end()) {
      stall.unknown.push_back(participant.rank);
      return;
    }
    const View& view = found->second;
    if (const Operation* own = view.find(participant.lane, stall.sequence)) {
      (own->state == State::Completed ? stall.passed : stall.waiting)
          .push_back({participant.rank, *own});
    } else if (view.num_issued(participant.lane) > stall.sequence) {
      stall.forgot.push_back(participant.rank);
    } else {
      stall.absent.push_back(
          {participant.rank,
           view.num_issued(participant.lane),
           copy_of(view.last(participant.lane)),
           copy_of(waits_in(view, participant.lane)),
           view.reason()});
    }
  }

  static std::optional<Operation> copy_of(const Operation* operation) {
    return operation == nullptr ? std::nullopt : std::optional(*operation);
  }

  // What the rank is in, other than `lane`. What failed is over.
  static const Operation* waits_in(const View& view, const Lane& lane) {
    for (const auto& [other, operation] : view.stuck()) {
      if (other != lane && operation->state != State::Failed) {
        return operation;
      }
    }
    return nullptr;
  }

  static std::vector<int> different_callers(const Stall& stall) {
    std::vector<Stall::Caller> callers = stall.waiting;
    callers.insert(callers.end(), stall.passed.begin(), stall.passed.end());
    const auto num_alike = [&](const Stall::Caller& caller) {
      return std::ranges::count_if(callers, [&](const Stall::Caller& other) {
        return agree(caller.operation.call, other.operation.call);
      });
    };
    const auto num_callers = static_cast<std::ptrdiff_t>(callers.size());
    std::vector<int> differ;
    for (const Stall::Caller& caller : callers) {
      if (num_alike(caller) * 2 <= num_callers &&
          num_alike(caller) < num_callers) {
        differ.push_back(caller.rank);
      }
    }
    std::ranges::sort(differ);
    return differ;
  }

  void find_unreceived() {
    for (const Record& sender : records_) {
      for (const GroupCounts& group : sender.groups) {
        for (const GroupCounts::Messages& with : group.messages) {
          add_unreceived(group.id, sender.rank, with.peer, with.sent);
        }
      }
    }
  }

  void add_unreceived(int group, int from, int to, std::uint64_t sent) {
    const auto receiver = views_.find(to);
    if (receiver == views_.end()) {
      return;
    }
    const std::uint64_t received =
        receiver->second.num_issued({group, OpKind::Recv, from});
    if (sent > received) {
      report_.unreceived.push_back(
          {group, from, to, received, sent - received});
    }
  }

  void name_culprits() {
    std::set<int> blamed;
    std::set<int> waiting;
    for (const Stall& stall : report_.stalls) {
      const std::vector<int> here = stall.blamed();
      blamed.insert(here.begin(), here.end());
      for (const Stall::Caller& caller : stall.waiting) {
        // Who called something else than the others waits for nobody's fault.
        if (std::ranges::count(here, caller.rank) == 0) {
          waiting.insert(caller.rank);
        }
      }
    }
    std::set_difference(
        blamed.begin(),
        blamed.end(),
        waiting.begin(),
        waiting.end(),
        std::back_inserter(report_.culprits));
    if (report_.culprits.empty()) {
      report_.circle.assign(blamed.begin(), blamed.end());
      report_.culprits = blamed_by_most();
    }
  }

  // In a circle, who left the others is more likely at fault than who stayed.
  std::vector<int> blamed_by_most() const {
    std::set<int> ranks;
    for (const Stall& stall : report_.stalls) {
      const std::vector<int> here = stall.blamed();
      if (stall.waiting.size() > here.size()) {
        ranks.insert(here.begin(), here.end());
      }
    }
    return ranks.empty() ? report_.circle
                         : std::vector<int>(ranks.begin(), ranks.end());
  }

  const std::vector<Record>& records_;
  std::map<int, View> views_; // by rank
  std::map<int, std::vector<int>> members_;
  HangReport report_;
};

} // namespace

std::vector<int> Stall::blamed() const {
  std::vector<int> blamed = differ;
  for (const Absentee& absentee : absent) {
    blamed.push_back(absentee.rank);
  }
  blamed.insert(blamed.end(), unknown.begin(), unknown.end());
  std::ranges::sort(blamed);
  return blamed;
}

HangReport find_hang(const std::vector<Record>& records) {
  return Analysis(records).run();
}

} // namespace argosy::comm::flight
