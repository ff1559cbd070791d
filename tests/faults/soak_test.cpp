// Faults, drawn from seeds, in every part of a job: all that should end ends
// within its bound, the culprit is named, nothing is left behind, and what
// continues gives the right result.
//
// ARGOSY_SOAK_SEED=N runs one seed alone (or several: N,M or N-M);
// ARGOSY_SOAK_TELL=1 prints a line for each.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/process_watch.h"
#include "argosy/common/text.h"
#include "argosy/launch/descendants.h"
#include "argosy/store/socket.h"
#include "argosy/testing/faults.h"
#include "tests/faults/soak_job.h"
#include "tests/faults/soak_plan.h"
#include "tests/faults/strangers.h"
#include "tests/support/free_port.h"
#include "tests/support/soak_seeds.h"

namespace argosy::testing {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// How much longer things take on a machine that has much else to do.
int slowness() {
  double load = 0;
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  if (::getloadavg(&load, 1) != 1) {
    return 1;
  }
  return std::clamp(static_cast<int>(load / cores), 1, 10);
}

// A worker of jobs without the library. Each node has a folder of its own.
constexpr const char* kShellWorker =
    "echo $$ > pid.$LOCAL_RANK.$TORCHELASTIC_RESTART_COUNT; sleep 0.3; "
    "echo done > done.$LOCAL_RANK";

// What the runs without faults did, by scenario.
struct Reference {
  std::vector<std::vector<FaultVisits>> visits; // by node
  std::string result;
};

class Soak {
 public:
  struct Counts {
    int injected = 0;
    int as_promised = 0;
    int not_reached = 0;
    int ended_by_user = 0;
  };

  void run(std::uint64_t seed);
  const Counts& counts() const { return counts_; }

 private:
  const Reference& reference(const Scenario& scenario);
  Plan plan_of(std::uint64_t seed);
  std::string hurt(const Plan& plan);
  std::string check(const Plan& plan, SoakJob& job);
  std::string check_culprit(const Plan& plan, const SoakJob& job) const;
  bool is_complete(const Scenario& scenario, SoakJob& job);
  void act(const Plan& plan, SoakJob& job) const;
  void start(
      SoakJob& job,
      const Scenario& scenario,
      std::size_t faulty,
      const std::map<std::string, std::string>& env,
      const Words& before = {});

  std::map<std::string, Reference> references_;
  std::filesystem::path mark_; // that the fault has happened
  bool fault_happened_ = false;
  std::unique_ptr<TempDir> shared_; // by the ranks of the job
  std::string endpoint_;
  Counts counts_;
};

Words worker_words(const Scenario& scenario, const std::string& shared) {
  if (!scenario.has_library) {
    return {"sh", "-c", kShellWorker};
  }
  if (scenario.name != "hosts") {
    return {ARGOSY_FAULT_JOB, scenario.name, shared};
  }
  // Ranks 2 and 3 see no other process, as if each were on a host of its own;
  // nor do they see the launcher's secret, so they take a copy along.
  return {
      "sh",
      "-c",
      "[ $RANK -lt 2 ] && exec \"$@\"; umask 077; own=\"$3/secret$RANK\"; "
      "cat \"$ARGOSY_SECRET_FILE\" > \"$own\"; "
      "export ARGOSY_SECRET_FILE=\"$own\"; "
      "exec unshare --pid --fork --kill-child --mount-proc \"$@\"",
      "sh",
      ARGOSY_FAULT_JOB,
      "auto",
      shared};
}

void Soak::start(
    SoakJob& job,
    const Scenario& scenario,
    std::size_t faulty,
    const std::map<std::string, std::string>& env,
    const Words& before) {
  shared_ = std::make_unique<TempDir>("soak");
  if (scenario.nodes > 1) {
    endpoint_ = str("127.0.0.1:", free_port());
  }
  for (int node = 0; node < scenario.nodes; ++node) {
    Words words = {
        "run",
        "-n",
        std::to_string(scenario.ranks),
        "--grace",
        "1",
        "--max-restarts",
        scenario.restarts ? "2" : "0"};
    if (scenario.nodes > 1) {
      const Words more = {
          "--nnodes",
          std::to_string(scenario.nodes),
          "--node-rank",
          std::to_string(node),
          "--rdzv-endpoint",
          endpoint_,
          "--rdzv-conf",
          "join_timeout=6,keep_alive_timeout=2"};
      words.insert(words.end(), more.begin(), more.end());
    }
    const Words worker = worker_words(scenario, shared_->path());
    words.insert(words.end(), worker.begin(), worker.end());
    const bool hit = static_cast<std::size_t>(node) == faulty;
    job.start(
        words,
        hit ? env
            : std::map<
                  std::string,
                  std::string>{{"ARGOSY_TIMEOUT", str(6 * slowness())}},
        hit ? before : Words{});
  }
}

const Reference& Soak::reference(const Scenario& scenario) {
  const std::string key = str(scenario.name, scenario.restarts);
  const auto found = references_.find(key);
  if (found != references_.end()) {
    return found->second;
  }
  Reference reference;
  for (int node = 0; node < scenario.nodes; ++node) {
    const TempDir visits("visits");
    SoakJob job(str("reference", node));
    start(
        job,
        scenario,
        static_cast<std::size_t>(node),
        {{"ARGOSY_FAULT_VISITS", visits.path().string()},
         {"ARGOSY_TIMEOUT", str(30 * slowness())}});
    EXPECT_EQ(job.await_end(60s * slowness()), "");
    EXPECT_TRUE(is_complete(scenario, job)) << key << "\n" << job.err();
    reference.visits.push_back(read_fault_visits(visits.path()));
    if (scenario.has_library) {
      // The launcher has scenarios of its own, which are quicker.
      std::erase_if(reference.visits.back(), [](const FaultVisits& each) {
        return each.rank == "launcher";
      });
    }
    reference.result = read_file(shared_->path() / "result").value_or("");
  }
  return references_[key] = std::move(reference);
}

Plan Soak::plan_of(std::uint64_t seed) {
  if (seed >= kFirstDiskSeed) {
    return disk_plan(seed);
  }
  if (seed >= kFirstHarmlessSeed) {
    return harmless_plan(seed);
  }
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15ULL);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
  };
  Plan plan{.seed = seed, .scenario = &scenarios()[seed % scenarios().size()]};
  const Scenario& scenario = *plan.scenario;
  plan.node = static_cast<std::size_t>(below(scenario.nodes));
  if (below(3) > 0) {
    plan.fault = draw_fault(
        random(),
        reference(scenario).visits[plan.node],
        {"kill", "kill", "throw", "stop", "delay"});
    return plan;
  }
  draw_outside(plan, random);
  return plan;
}

// Process ids of the workers, launcher and guard of a node.
std::optional<pid_t> victim_of(const Plan& plan, SoakJob& job) {
  const pid_t guard = job.node(plan.node).pid();
  const auto below = launch::descendants(guard);
  switch (plan.outside) {
    case Outside::KillGuard:
      return guard;
    case Outside::KillLauncher:
    case Outside::PauseLauncher:
      return below.empty() ? std::nullopt : std::optional(below.front());
    default:
      return below.size() < 2
          ? std::nullopt
          : std::optional(below[1 + plan.seed % (below.size() - 1)]);
  }
}

// Carries out what comes from outside.
void Soak::act(const Plan& plan, SoakJob& job) const {
  switch (plan.outside) {
    case Outside::None:
    case Outside::FewFiles:
    case Outside::LittleMemory:
    case Outside::Strangers:
    case Outside::ClockJumps:
    case Outside::FullDisk:
      return; // they are there from the start
    default:
      break;
  }
  ::poll(nullptr, 0, plan.delay_ms);
  if (plan.outside == Outside::Garbage) {
    send_garbage(endpoint_, plan.seed);
    return;
  }
  const auto victim = victim_of(plan, job);
  if (!victim) {
    return;
  }
  const bool pauses = plan.outside == Outside::PauseWorker ||
      plan.outside == Outside::PauseLauncher;
  const bool stops = pauses || plan.outside == Outside::StopWorker;
  ::kill(*victim, stops ? SIGSTOP : SIGKILL);
  if (pauses) {
    ::poll(nullptr, 0, 300);
    ::kill(*victim, SIGCONT);
  }
}

// Lets launchers go on that are stopped; whether there was one. Nobody but its
// user could end it.
bool continue_launcher(pid_t guard) {
  bool found = false;
  for (const pid_t pid : launch::descendants(guard)) {
    const auto state = read_process_state(pid);
    if (state && state->stopped() && state->parent == guard) {
      ::poll(nullptr, 0, 300);
      ::kill(pid, SIGCONT);
      found = true;
    }
  }
  return found;
}

bool Soak::is_complete(const Scenario& scenario, SoakJob& job) {
  for (const int code : job.codes()) {
    if (code != 0) {
      return false;
    }
  }
  for (int node = 0; node < scenario.nodes && !scenario.has_library; ++node) {
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      const auto folder = job.node(static_cast<std::size_t>(node)).folder();
      if (!std::filesystem::exists(folder / str("done.", rank))) {
        return false;
      }
    }
  }
  if (scenario.has_library && scenario.restarts) {
    const auto found = references_.find(str(scenario.name, scenario.restarts));
    const auto result = read_file(shared_->path() / "result");
    return result &&
        (found == references_.end() || *result == found->second.result);
  }
  return true;
}

bool was_signalled(const SoakJob& job) {
  return std::ranges::find(job.codes(), 128 + SIGTERM) != job.codes().end();
}

// The part of the report about the root cause.
std::string root_cause_of(const std::string& err) {
  const std::size_t begin = err.find("Root Cause");
  if (begin == std::string::npos) {
    return "";
  }
  return err.substr(begin, err.find("Other Failures", begin) - begin);
}

std::string Soak::check_culprit(const Plan& plan, const SoakJob& job) const {
  const std::string err = job.err();
  if (plan.outside == Outside::FullDisk) {
    const bool named = err.find("No space left on device") != std::string::npos;
    return named ? "" : "the full disk is not named";
  }
  if (plan.fault && plan.fault->rank == "launcher") {
    const bool said = plan.fault->action != "throw" ||
        err.find("[fault] injected at " + plan.fault->point) !=
            std::string::npos;
    return said ? "" : "the launcher does not say why it failed";
  }
  if (!plan.fault || was_signalled(job)) {
    return "";
  }
  const std::string cause = root_cause_of(err);
  const std::string rank = plan.fault->rank;
  const bool named =
      cause.find("rank      : " + rank + " ") != std::string::npos ||
      cause.find("rank " + rank + " ") != std::string::npos ||
      cause.find("rank " + rank + ":") != std::string::npos ||
      cause.find("rank " + rank + "/") != std::string::npos;
  return named ? "" : "the root cause is not rank " + rank;
}

// Empty if all went as promised.
std::string Soak::check(const Plan& plan, SoakJob& job) {
  const Scenario& scenario = *plan.scenario;
  if (is_complete(scenario, job)) {
    return "";
  }
  bool failed = false;
  for (const int code : job.codes()) {
    failed = failed || code != 0;
  }
  if (!failed) {
    return "it ended with 0, and its result is wrong or missing";
  }
  if (plan.is_harmless() || (plan.fault && !fault_happened_)) {
    return "it failed, although nothing was lost";
  }
  const bool hits_worker = plan.fault ? plan.fault->rank != "launcher"
                                      : plan.outside == Outside::KillWorker ||
          plan.outside == Outside::StopWorker;
  if (hits_worker && scenario.restarts && !was_signalled(job)) {
    return "it was not restarted with success";
  }
  return check_culprit(plan, job);
}

std::string Soak::hurt(const Plan& plan) {
  const TempDir marks("mark");
  mark_ = marks.path() / "fault";
  std::map<std::string, std::string> env;
  if (plan.fault) {
    env = plan.fault->environment(mark_);
  }
  const bool stops = (plan.fault && plan.fault->action == "stop") ||
      plan.outside == Outside::StopWorker;
  const int slow = slowness();
  env["ARGOSY_TIMEOUT"] = str((stops ? 6 : 20) * slow);
  if (plan.outside == Outside::ClockJumps) {
    env["LD_PRELOAD"] = ARGOSY_JUMPING_CLOCK;
  }
  SoakJob job(str("seed", plan.seed));
  start(job, *plan.scenario, plan.node, env, limits_of(plan));
  std::optional<Strangers> strangers;
  if (plan.outside == Outside::Strangers) {
    strangers.emplace([&] { return job.processes(); }, plan.seed);
  }
  act(plan, job);
  if (plan.fault && plan.fault->action == "stop" &&
      plan.fault->rank == "launcher") {
    const pid_t guard = job.node(plan.node).pid();
    eventually([&] { return continue_launcher(guard) || !is_alive(guard); });
  }
  // A process that is stopped where no other waits for it holds up the end of
  // the job, and its user ends it.
  std::string problem = job.await_end((stops ? 30s : 60s) * slow);
  if (stops && !problem.empty()) {
    for (int node = 0; node < plan.scenario->nodes; ++node) {
      job.node(static_cast<std::size_t>(node)).send(SIGTERM);
    }
    problem = job.await_end(20s * slow);
    ++counts_.ended_by_user;
  }
  fault_happened_ = std::filesystem::exists(mark_);
  const bool has_ports = plan.scenario->nodes > 1 || plan.scenario->has_library;
  if (strangers && has_ports && strangers->num_ports() == 0) {
    problem += "the strangers found no port";
  }
  strangers.reset();
  if (problem.empty()) {
    problem = check(plan, job);
  } else {
    problem = "it did not end:\n" + problem;
  }
  const std::string left = problem.empty() ? job.leftovers() : "";
  if (!left.empty()) {
    problem += "left behind:\n" + left;
  }
  return problem.empty() ? "" : str(problem, "\n", job.err());
}

void Soak::run(std::uint64_t seed) {
  const Plan plan = plan_of(seed);
  const auto began = std::chrono::steady_clock::now();
  const std::string problem = hurt(plan);
  const auto took = std::chrono::steady_clock::now() - began;
  ++counts_.injected;
  counts_.as_promised += problem.empty() ? 1 : 0;
  counts_.not_reached += plan.fault && !fault_happened_ ? 1 : 0;
  if (::getenv("ARGOSY_SOAK_TELL") != nullptr || !problem.empty()) {
    std::cout << plan.text() << ": "
              << (problem.empty() ? "as promised" : "LOST") << ", "
              << duration_text(took) << std::endl;
  }
  EXPECT_EQ(problem, "") << plan.text()
                         << "\nto repeat: ARGOSY_SOAK_SEED=" << seed << " "
                         << "faults.soak_test";
}

void run_seeds(const std::vector<std::vector<std::uint64_t>>& lists) {
  Soak soak;
  if (const auto only = seeds_to_repeat()) {
    for (const std::uint64_t seed : *only) {
      soak.run(seed);
    }
  } else {
    for (const auto& seeds : lists) {
      for (const std::uint64_t seed : seeds) {
        soak.run(seed);
      }
    }
  }
  const auto& counts = soak.counts();
  std::cout << "faults: " << counts.injected << " injected ("
            << counts.not_reached << " not reached, " << counts.ended_by_user
            << " stopped where only a user ends them), " << counts.as_promised
            << " ended as promised, " << counts.injected - counts.as_promised
            << " lost" << std::endl;
}

// A seed of harmless_plan(): the number of a scenario, and of a fault.
std::uint64_t harmless(std::size_t scenario, std::size_t fault) {
  return kFirstHarmlessSeed + fault * scenarios().size() + scenario;
}

TEST(Faults, EndAsPromised) {
  // Strangers: two nodes, and ranks that train; a jumping clock: likewise.
  run_seeds(
      {seeds_from(1, 22),
       {harmless(3, 0),
        harmless(8, 0),
        harmless(1, 1),
        harmless(9, 1),
        kFirstDiskSeed + 1}});
}

TEST(Faults, SoakEndAsPromised) {
  run_seeds(
      {seeds_from(1000, 528),
       seeds_from(kFirstHarmlessSeed, 66),
       seeds_from(kFirstDiskSeed, 12)});
}

} // namespace
} // namespace argosy::testing
