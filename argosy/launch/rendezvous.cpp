#include "argosy/launch/rendezvous.h"

#include <algorithm>
#include <functional>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/launch/hang_share.h"
#include "argosy/launch/node_record.h"
#include "argosy/launch/reserved_ports.h"

namespace argosy::launch {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPoll{50};

// The time limit of a single store operation.
Deadline soon() {
  return Deadline::after(std::chrono::seconds(3));
}

// Keys of a job, all under argosy/<run id>/:
//   attempt        "<epoch>.<restarts>", the current attempt. A new job with
//                  the id of a finished one opens a new epoch.
// For each attempt, under <epoch>.<restarts>/:
//   arrivals       counter of nodes that have come
//   node/<arrival> a NodeRecord with a lease: it lives as long as its launcher
//   closed         the Arrivals that form the attempt
//   error          why the rendezvous is impossible
//   failure        the root cause: the Failure that was reported first
//   done/<arrival> set when that node's workers have succeeded
//   hang_asks      counter of asks for flight records
// And under hang/<epoch>.<restarts>/, apart because they are long:
//   <arrival>      the last ask that node has answered, and its records
struct AttemptId {
  int epoch = 0;
  int restarts = 0;

  std::string text() const { return str(epoch, ".", restarts); }

  static AttemptId parse(const std::string& text) {
    const auto parts = split(text, '.');
    const auto epoch = parse_int(parts.size() == 2 ? parts[0] : "");
    const auto restarts = parse_int(parts.size() == 2 ? parts[1] : "");
    if (!epoch || !restarts) {
      throw StoreError(str("[launch.rendezvous] bad attempt \"", text, "\""));
    }
    return {static_cast<int>(*epoch), static_cast<int>(*restarts)};
  }
};

class Rendezvous : public Membership, public JobWatch {
 public:
  Rendezvous(
      const RunOptions& options, RendezvousStore store, Interrupt& interrupt)
      : options_(options),
        store_(std::move(store)),
        kv_(*store_.kv),
        interrupt_(interrupt),
        base_(str("argosy/", options.rdzv.run_id, "/")),
        lease_(kv_.grant(options.rdzv.keep_alive, soon())) {}

  NodeAssignment join() override;
  JobWatch* watch() override { return this; }
  HangShare* hang_share() override { return share_.get(); }
  void report(const Failure& failure) override;
  std::optional<Failure> root_cause() override;
  void leave() override;

  bool must_stop() override;
  bool all_done() override;

 private:
  std::string key(std::string_view name) const {
    return str(base_, attempt_.text(), "/", name);
  }
  void open_attempt();
  void open_epoch();
  void arrive();
  void meet();
  NodeRecord own_record();
  Arrivals present();
  bool try_close(const Arrivals& here);
  bool accept_closed();
  bool is_over(const Arrivals& members);
  void check_turned_away();
  void check_conflict(const Arrivals& here);
  NodeAssignment assign() const;
  bool lose_store(const Error& error);
  void unless_lost(const std::function<void()>& call);
  void report_vanished(const std::map<std::string, std::string>& state);

  const RunOptions& options_;
  const RendezvousStore store_;
  store::Kv& kv_;
  Interrupt& interrupt_;
  const std::string base_;
  std::unique_ptr<store::Lease> lease_;
  ReservedPorts ports_;

  AttemptId attempt_;
  bool joined_ = false; // took part in an earlier attempt
  int arrival_ = -1;
  Arrivals members_; // of the current attempt
  std::optional<Deadline> last_call_;
  // Set while the attempt runs without us: how long to wait for its end.
  std::optional<Deadline> turned_away_;
  std::optional<Failure> lost_store_;
  std::unique_ptr<StoreHangShare> share_; // of the current attempt
};

NodeAssignment Rendezvous::join() {
  open_attempt();
  arrive();
  try {
    meet();
  } catch (const Error& error) {
    if (store_.server != nullptr) {
      // The store ends with us, so do not let the others wait in vain.
      kv_.compare_set(key("error"), std::nullopt, error.what(), soon());
    }
    throw;
  }
  joined_ = true;
  share_ = std::make_unique<StoreHangShare>(HangRoom{
      .kv = kv_,
      .asks = key("hang_asks"),
      .answers = str(base_, "hang/", attempt_.text(), "/"),
      .node = arrival_,
      .num_nodes = static_cast<int>(members_.size()),
      .lease = lease_.get()});
  return assign();
}

void Rendezvous::meet() {
  const Deadline deadline = Deadline::after(options_.rdzv.timeout);
  while (!accept_closed()) {
    // Polling works with any store, and lets signals through.
    const Arrivals here = present();
    check_conflict(here);
    if (!try_close(here) && deadline.expired()) {
      throw TimeoutError(str_format(
          "[launch.rendezvous] --rdzv-id {} at {}: {}",
          options_.rdzv.run_id,
          store_.url,
          missing_nodes_text(here, options_.min_nodes, deadline.limit_text())));
    }
    interrupt_.pause(kPoll);
  }
}

// After a failure, all nodes move to the next attempt; the first one writes it.
void Rendezvous::open_attempt() {
  if (lost_store_) {
    throw StoreError(str("[launch.rendezvous] ", lost_store_->message));
  }
  const std::string name = base_ + "attempt";
  if (joined_) {
    AttemptId next = attempt_;
    ++next.restarts;
    kv_.compare_set(name, attempt_.text(), next.text(), soon());
    // Fails if another node was first, which is fine.
  } else {
    kv_.compare_set(name, std::nullopt, AttemptId{}.text(), soon());
  }
  attempt_ = AttemptId::parse(kv_.get(name, soon()).value_or(""));
  // An error left by nodes that are gone does not concern us.
  if (kv_.get(key("error"), soon()) && present().empty()) {
    open_epoch();
  }
}

void Rendezvous::open_epoch() {
  const std::string name = base_ + "attempt";
  const AttemptId fresh{attempt_.epoch + 1, 0};
  kv_.compare_set(name, attempt_.text(), fresh.text(), soon());
  attempt_ = AttemptId::parse(kv_.get(name, soon()).value_or(""));
}

void Rendezvous::arrive() {
  members_.clear();
  last_call_.reset();
  arrival_ = static_cast<int>(kv_.add(key("arrivals"), 1, soon()));
  kv_.set(
      key(str("node/", arrival_)), to_json(own_record()), soon(), lease_.get());
}

NodeRecord Rendezvous::own_record() {
  const int num_processes = options_.num_servers + options_.num_workers;
  return {
      .node =
          {.host = host_name(),
           .address = store_.address,
           .num_servers = options_.num_servers,
           .num_workers = options_.num_workers,
           .ports = ports_.reserve(num_processes)},
      .requested_rank = options_.node_rank,
      .min_nodes = options_.min_nodes,
      .max_nodes = options_.max_nodes,
      .master_port = ports_.reserve_master(options_.master_port.value_or(0))};
}

Arrivals Rendezvous::present() {
  Arrivals here;
  const std::string prefix = key("node/");
  for (const auto& [name, value] : kv_.list(prefix, soon())) {
    if (const auto arrival = parse_int(name.substr(prefix.size()))) {
      here[static_cast<int>(*arrival)] = parse_node_record(value);
    }
  }
  return here;
}

void Rendezvous::check_conflict(const Arrivals& here) {
  std::optional<std::string> conflict = kv_.get(key("error"), soon());
  if (!conflict) {
    conflict = find_conflict(here);
    if (!conflict) {
      return;
    }
    kv_.set(key("error"), *conflict, soon());
  }
  throw InvalidArgument(str_format(
      "[launch.rendezvous] --rdzv-id {} at {}: {}",
      options_.rdzv.run_id,
      store_.url,
      *conflict));
}

// If enough nodes are present, closes the list; returns whether it is closed,
// by this node or another.
bool Rendezvous::try_close(const Arrivals& here) {
  const int count = static_cast<int>(here.size());
  if (count < options_.min_nodes) {
    last_call_.reset();
    return false;
  }
  if (count < options_.max_nodes) {
    // Fewer than the maximum: wait a while for more nodes.
    if (!last_call_) {
      last_call_ = Deadline::after(options_.rdzv.last_call);
    }
    if (!last_call_->expired()) {
      return false;
    }
  }
  Arrivals taken(
      here.begin(),
      std::next(here.begin(), std::min(count, options_.max_nodes)));
  // Several nodes may close at the same time with different lists. The first
  // one wins; accept_closed() reads it.
  kv_.compare_set(key("closed"), std::nullopt, to_json(taken), soon());
  return true;
}

// Returns whether the attempt is closed and includes us. If it is closed
// without us, looks for the next one.
bool Rendezvous::accept_closed() {
  const auto closed = kv_.get(key("closed"), soon());
  if (!closed) {
    return false;
  }
  Arrivals members = parse_arrivals(*closed);
  if (members.count(arrival_) > 0) {
    members_ = std::move(members);
    return true;
  }
  const std::string own = key(str("node/", arrival_));
  const std::string before = attempt_.text();
  if (is_over(members)) {
    // All members are gone: the job of that id is over, and a new one starts.
    open_epoch();
  } else {
    attempt_ =
        AttemptId::parse(kv_.get(base_ + "attempt", soon()).value_or(before));
  }
  if (attempt_.text() != before) {
    kv_.erase(own, soon());
    arrive();
    return false;
  }
  check_turned_away();
  return false;
}

// A complete job may still lose a node and take us instead, unless it has no
// restarts left.
void Rendezvous::check_turned_away() {
  if (!turned_away_) {
    turned_away_ = Deadline::after(
        options_.max_restarts > 0 ? options_.rdzv.timeout
                                  : 2 * options_.rdzv.keep_alive);
  }
  if (turned_away_->expired()) {
    throw InvalidArgument(str_format(
        "[launch.rendezvous] --rdzv-id {} at {}: this job has all its nodes "
        "already",
        options_.rdzv.run_id,
        store_.url));
  }
}

bool Rendezvous::is_over(const Arrivals& members) {
  const Arrivals here = present();
  return std::ranges::none_of(members, [&](const auto& member) {
    return here.count(member.first) > 0;
  });
}

NodeAssignment Rendezvous::assign() const {
  NodeAssignment assignment;
  assignment.run_id = options_.rdzv.run_id;
  assignment.attempt = attempt_.restarts;
  for (const int arrival : order_nodes(members_)) {
    const NodeRecord& record = members_.at(arrival);
    if (assignment.nodes.empty()) {
      assignment.master = {record.node.address, record.master_port};
    }
    if (arrival == arrival_) {
      assignment.node_rank = assignment.num_nodes();
    }
    assignment.nodes.push_back(record.node);
  }
  return assignment;
}

bool Rendezvous::must_stop() {
  if (lost_store_) {
    return true;
  }
  try {
    // Short, because signals are not handled meanwhile.
    const auto state =
        kv_.list(key(""), Deadline::after(std::chrono::seconds(1)));
    if (state.count(key("failure")) > 0) {
      return true;
    }
    report_vanished(state);
    if (const auto asks = state.find(key("hang_asks")); asks != state.end()) {
      share_->note_asks(asks->second);
    }
    // If two nodes report at the same time, one report wins. All nodes then
    // read the same cause.
    return false; // the next poll finds what we reported
  } catch (const TimeoutError& error) {
    // The others rely on us as long as our lease is alive.
    return !lease_->alive() && lose_store(error);
  } catch (const StoreError& error) {
    return lose_store(error);
  }
}

bool Rendezvous::lose_store(const Error& error) {
  lost_store_ = Failure{
      .host = host_name(),
      .role = "launcher",
      .status = {.exit_code = 1},
      .time = std::chrono::system_clock::now(),
      .message = str("lost the store at ", store_.url, ": ", error.what())};
  return true;
}

// Runs a store operation. If the store is gone, the workers must still be
// stopped, so the next poll reports it.
void Rendezvous::unless_lost(const std::function<void()>& call) {
  if (lost_store_) {
    return;
  }
  try {
    call();
  } catch (const TimeoutError& error) {
    lose_store(error);
  } catch (const StoreError& error) {
    lose_store(error);
  }
}

void Rendezvous::report_vanished(
    // Only nodes that neither live nor have finished count as lost.
    const std::map<std::string, std::string>& state) {
  int node_rank = 0;
  for (const int arrival : order_nodes(members_)) {
    const bool gone = state.count(key(str("node/", arrival))) == 0 &&
        state.count(key(str("done/", arrival))) == 0;
    if (gone) {
      const std::string& host = members_.at(arrival).node.host;
      report(
          {.host = host,
           .role = "launcher",
           .status = {.exit_code = 1},
           .time = std::chrono::system_clock::now(),
           .message = str_format(
               "node {}: argosy run on {} is gone, or was silent for {}",
               node_rank,
               host,
               duration_text(options_.rdzv.keep_alive))});
      return;
    }
    ++node_rank;
  }
}

bool Rendezvous::all_done() {
  std::size_t num_done = 0;
  unless_lost([&] {
    // Without a lease: the key must outlive this launcher, or the others would
    // take its end for a loss.
    kv_.set(key(str("done/", arrival_)), "1", soon());
    num_done = kv_.list(key("done/"), soon()).size();
  });
  return num_done == members_.size();
}

void Rendezvous::report(const Failure& failure) {
  unless_lost([&] {
    kv_.compare_set(key("failure"), std::nullopt, to_json(failure), soon());
  });
}

std::optional<Failure> Rendezvous::root_cause() {
  std::optional<std::string> text;
  unless_lost([&] { text = kv_.get(key("failure"), soon()); });
  if (lost_store_) {
    return lost_store_;
  }
  return text ? std::optional<Failure>(parse_failure(*text)) : std::nullopt;
}

void Rendezvous::leave() {
  if (lost_store_) {
    return;
  }
  try {
    kv_.erase(key(str("node/", arrival_)), soon());
    // Other nodes may still have to read why the job ends.
    const Deadline deadline =
        Deadline::after(2 * options_.rdzv.keep_alive + options_.grace);
    while (store_.server != nullptr && !present().empty() &&
           !deadline.expired()) {
      interrupt_.pause(kPoll);
    }
    lease_->release();
  } catch (const Error&) {
    // The store is gone or a signal came: our lease expires by itself.
  }
}

} // namespace

std::unique_ptr<Membership> make_rendezvous(
    const RunOptions& options, RendezvousStore store, Interrupt& interrupt) {
  return std::make_unique<Rendezvous>(options, std::move(store), interrupt);
}

} // namespace argosy::launch
