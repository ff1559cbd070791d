#include "tests/launch/job_simulation.h"

#include "argosy/common/error.h"
#include "argosy/launch/outcome.h"
#include "argosy/launch/rendezvous.h"

namespace argosy::testing {

using launch::Ending;
using launch::Membership;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kGust{100}; // between the storm's looks for a victim
// After the storm: leases end, attempts fail, nodes meet again. No wait of the
// protocol is longer than the rendezvous, which never times out here.
constexpr milliseconds kRecovery{90'000};

struct LeavingJob {
  Membership& membership;
  ~LeavingJob() { membership.leave(); }
};

} // namespace

JobSimulation::JobSimulation(std::uint64_t seed)
    : kind_(seed % 2 == 0 ? StoreKind::Tcp : StoreKind::Etcd),
      store_(simulation_, kind_),
      invariants_(simulation_, store_, options_),
      simulation_(seed) {
  choose();
  choose_storm();
}

milliseconds JobSimulation::some(int first_ms, int last_ms) {
  return milliseconds(simulation_.random().between(first_ms, last_ms));
}

void JobSimulation::choose() {
  Random& random = simulation_.random();
  machines_.resize(random.between(2, 4));
  const int count = static_cast<int>(machines_.size());
  const bool has_spare = count > 2 && random.chance(0.2);
  options_.max_nodes = has_spare ? count - 1 : count;
  options_.min_nodes = random.chance(0.6)
      ? options_.max_nodes
      : random.between(1, options_.max_nodes);
  options_.max_restarts = random.chance(0.6) ? 1000 : random.between(0, 3);
  options_.monitor_interval = some(100, 400);
  options_.rdzv.run_id = "sim";
  options_.rdzv.backend = kind_ == StoreKind::Tcp ? launch::RdzvBackend::Tcp
                                                  : launch::RdzvBackend::Etcd;
  options_.rdzv.timeout = milliseconds(300'000);
  options_.rdzv.last_call = some(200, 1500);
  options_.rdzv.keep_alive = some(500, 3000);
  machine_options_.assign(machines_.size(), options_);
  if (options_.min_nodes == count && random.chance(0.5)) {
    for (int machine = 0; machine < count; ++machine) {
      machine_options_[machine].node_rank = machine;
    }
  }
}

// Each kind of fault is left out of half of all runs, so that they meet in all
// combinations.
void JobSimulation::choose_storm() {
  Random& random = simulation_.random();
  const auto maybe = [&](double most) {
    return random.chance(0.5) ? most * random.between(10, 100) / 100 : 0;
  };
  storm_ = {
      .length = some(3'000, 12'000),
      .crash = maybe(0.2),
      .pause = maybe(0.4),
      .cut = maybe(0.3),
      .stall = maybe(0.2),
      .fail = maybe(0.7)};
  faults_.slow = maybe(0.05);
  faults_.lost = maybe(0.05);
  faults_.broken = maybe(0.05);
  faults_.twice = maybe(0.2);
}

void JobSimulation::run() {
  store_.set_faults(faults_);
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    start_later(static_cast<int>(machine), some(0, 1000));
  }
  simulation_.after(kGust, [this] { rage(); });
  simulation_.after(storm_.length, [this] { calm(); });
  simulation_.after(storm_.length + kRecovery, [this] { check_progress(); });
  simulation_.run(storm_.length + 2 * kRecovery, [this] { step(); });
}

void JobSimulation::step() {
  invariants_.check();
  if (invariants_.is_done() && !is_done_) {
    is_done_ = true;
    recovery_ = std::max(
        simulation_.elapsed() - storm_.length, std::chrono::nanoseconds(0));
    const auto left = storm_.length - simulation_.elapsed();
    simulation_.after(
        std::max<std::chrono::nanoseconds>(left, milliseconds(0)) +
            2 * options_.rdzv.keep_alive + milliseconds(8'000),
        [this] { clean_up(); });
  }
}

void JobSimulation::check_progress() {
  require(
      invariants_.is_done(),
      "the job is not done ",
      duration_text(kRecovery),
      " after the storm");
}

// The job is done: those that took part have ended. Others wait for a job to
// come, and the operator ends them.
void JobSimulation::clean_up() {
  for (const Machine& machine : machines_) {
    if (!machine.runs) {
      continue;
    }
    require(
        !invariants_.was_in_done(machine.node),
        "node ",
        machine.node,
        " goes on after the job is done");
    simulation_.crash(machine.node);
  }
}

// ---- The operator -----------------------------------------------------------

void JobSimulation::start_later(int machine, milliseconds delay) {
  simulation_.after(delay, [this, machine] { start(machine); });
}

void JobSimulation::start(int machine) {
  Machine& here = machines_[machine];
  if (here.runs || here.completed || is_done_) {
    return;
  }
  const int node = simulation_.add_node(str("m", machine));
  here.node = node;
  here.runs = true;
  simulation_.note("machine ", machine, " starts node ", node);
  simulation_.spawn(node, [this, machine, node] { launch(machine, node); });
}

void JobSimulation::ended(int machine, int node, int code) {
  simulation_.note("exits with ", code);
  machines_[machine].runs = false;
  machines_[machine].completed = code == 0;
  invariants_.stopped(node);
  if (code != 0) {
    start_later(machine, some(100, 2'000));
  }
}

// ---- The storm --------------------------------------------------------------

bool JobSimulation::happens(double per_second) {
  return simulation_.random().chance(
      per_second * std::chrono::duration<double>(kGust).count());
}

void JobSimulation::rage() {
  if (is_calm()) {
    return;
  }
  const int ttl = static_cast<int>(options_.rdzv.keep_alive.count());
  if (happens(storm_.stall)) {
    store_.stall(some(50, 2 * ttl));
  }
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    Machine& machine = machines_[i];
    if (!machine.runs) {
      continue;
    }
    if (happens(storm_.crash)) {
      simulation_.crash(machine.node);
      invariants_.stopped(machine.node);
      machine.runs = false;
      start_later(static_cast<int>(i), some(10, 3'000));
      continue;
    }
    if (happens(storm_.pause)) {
      simulation_.pause(machine.node, some(100, 3 * ttl));
    }
    if (happens(storm_.cut)) {
      store_.cut(machine.node, true);
      simulation_.after(some(100, 3 * ttl), [this, node = machine.node] {
        store_.cut(node, false);
      });
    }
  }
  simulation_.after(kGust, [this] { rage(); });
}

void JobSimulation::calm() {
  simulation_.note("the storm is over");
  store_.set_faults({});
  for (std::size_t machine = 0; machine < machines_.size(); ++machine) {
    store_.cut(machines_[machine].node, false);
    start_later(static_cast<int>(machine), some(0, 1'000));
  }
}

// ---- A launcher -------------------------------------------------------------

void JobSimulation::launch(int machine, int node) {
  int code = 2;
  const launch::RunOptions& options = machine_options_[machine];
  try {
    const auto membership = launch::make_rendezvous(
        options,
        {.url = "simulated",
         .address = str("m", machine),
         .server = nullptr,
         .kv = store_.client(node)},
        launch::RendezvousNode{
            .pause = [](milliseconds time) { sleep_for(time); },
            .describe = [=, this] { return describe(machine, node); }});
    const LeavingJob leaving{*membership};
    code = run_agent(node, *membership, options);
  } catch (const Crashed&) {
    throw;
  } catch (const Error& error) {
    simulation_.note(error.what());
  }
  if (!simulation_.has_crashed(node)) {
    ended(machine, node, code);
  }
}

launch::NodeRecord JobSimulation::describe(int machine, int node) {
  ports_[node] = ++last_port_;
  return {
      .node =
          {.host = str("m", machine),
           .address = str("m", machine),
           .ports = {last_port_}},
      .requested_rank = machine_options_[machine].node_rank,
      .min_nodes = options_.min_nodes,
      .max_nodes = options_.max_nodes,
      .master_port = last_port_};
}

// As argosy/launch/agent.cpp does, with workers that are only times.
int JobSimulation::run_agent(
    int node, Membership& membership, const launch::RunOptions& options) {
  while (true) {
    const launch::NodeAssignment assignment = membership.join();
    invariants_.joined(node, assignment, ports_[node]);
    const Ending ending = supervise(node, membership);
    if (ending == Ending::Completed) {
      invariants_.completed(node);
      return 0;
    }
    tell(node, ending, membership);
    if (assignment.attempt >= options.max_restarts) {
      return 1;
    }
  }
}

Ending JobSimulation::supervise(int node, Membership& membership) {
  const bool fails = !is_calm() && simulation_.random().chance(storm_.fail);
  const auto end = time_now() +
      (fails           ? some(50, 3'000)
           : is_calm() ? some(200, 1'000)
                       : some(2'000, 15'000));
  for (bool is_done = false;;) {
    sleep_for(options_.monitor_interval);
    if (!is_done && time_now() >= end) {
      if (fails) {
        invariants_.worker_failed(node);
        invariants_.stopped(node);
        return Ending::Failed;
      }
      is_done = true;
      invariants_.workers_succeeded(node);
    }
    if (membership.watch()->must_stop()) {
      if (!is_done) {
        sleep_for(some(0, 200)); // until the workers have ended
        invariants_.stopped(node);
      }
      return Ending::Recalled;
    }
    if (is_done && membership.watch()->all_done()) {
      return Ending::Completed;
    }
  }
}

void JobSimulation::tell(int node, Ending ending, Membership& membership) {
  if (ending == Ending::Failed) {
    membership.report(
        {.host = str("node ", node),
         .role = "default",
         .pid = 1,
         .status = {.exit_code = 3},
         .time = {},
         .message = str("failure ", ++num_failures_)});
  }
  if (const auto cause = membership.root_cause()) {
    invariants_.cause_is(node, cause->message);
  }
}

} // namespace argosy::testing
