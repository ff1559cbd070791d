#include "tests/faults/soak_plan.h"

#include "argosy/common/error.h"

namespace argosy::testing {

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all = {
      {.name = "launcher", .has_library = false},
      {.name = "nodes", .nodes = 2, .has_library = false},
      {.name = "launcher", .restarts = true, .has_library = false},
      {.name = "nodes", .nodes = 2, .restarts = true, .has_library = false},
      {.name = "auto", .ranks = 3},
      {.name = "gloo", .ranks = 3},
      {.name = "c10d", .ranks = 3},
      {.name = "hosts", .ranks = 4},
      {.name = "data_parallel", .restarts = true},
      {.name = "sharding", .restarts = true},
      {.name = "pipeline", .restarts = true}};
  return all;
}

namespace {

const char* name_of(Outside outside) {
  constexpr const char* kNames[] = {
      "none",
      "kill a worker",
      "pause a worker",
      "stop a worker",
      "kill the launcher",
      "pause the launcher",
      "kill the guard",
      "few files",
      "little memory",
      "garbage",
      "strangers at all ports",
      "a clock that jumps",
      "a full disk"};
  return kNames[static_cast<int>(outside)];
}

// Gloo believes whoever connects while a group does: docs/security.md.
bool listens_with_gloo(const Scenario& scenario) {
  return scenario.name == "gloo" || scenario.name == "c10d" ||
      scenario.name == "hosts";
}

} // namespace

std::string Plan::text() const {
  return str_format(
      "seed {}: {}{}, node {}, {}",
      seed,
      scenario->name,
      scenario->restarts ? " with restarts" : "",
      node,
      fault ? fault->text()
            : str(name_of(outside), " (", delay_ms, " ms, ", amount, ")"));
}

bool Plan::is_harmless() const {
  if (fault) {
    return fault->action == "delay" ||
        (fault->rank == "launcher" && fault->action == "stop" &&
         scenario->nodes == 1);
  }
  switch (outside) {
    case Outside::PauseWorker:
    case Outside::Garbage:
    case Outside::ClockJumps:
      return true;
    case Outside::PauseLauncher:
      return scenario->nodes == 1;
    case Outside::Strangers:
      return !listens_with_gloo(*scenario);
    default:
      return false;
  }
}

std::vector<std::string> limits_of(const Plan& plan) {
  switch (plan.outside) {
    case Outside::FewFiles:
      return {"prlimit", str("--nofile=", plan.amount)};
    case Outside::LittleMemory:
      return {"prlimit", str("--as=", std::int64_t{plan.amount} << 20)};
    case Outside::FullDisk:
      // The last word is the folder of the job.
      return {
          "unshare",
          "-m",
          "sh",
          "-c",
          str("for last; do :; done; mkdir \"$last/saved\" && "
              "mount -t tmpfs -o size=",
              plan.amount,
              "k none \"$last/saved\" && exec \"$@\""),
          "sh"};
    default:
      return {};
  }
}

void draw_outside(Plan& plan, std::mt19937_64& random) {
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(bound));
  };
  const Scenario& scenario = *plan.scenario;
  plan.outside = static_cast<Outside>(1 + below(scenario.nodes > 1 ? 9 : 8));
  if (scenario.name == "hosts" && plan.outside == Outside::StopWorker) {
    plan.outside = Outside::KillWorker; // it may be no rank
  }
  // With less than about 800 MB, OpenBLAS asks for memory in an endless loop
  // before main() begins.
  plan.delay_ms = below(scenario.has_library ? 1500 : 400);
  plan.amount =
      plan.outside == Outside::FewFiles ? 8 + below(60) : 1000 + below(3000);
}

Plan harmless_plan(std::uint64_t seed) {
  const std::size_t count = scenarios().size();
  const std::uint64_t number = seed - kFirstHarmlessSeed;
  Plan plan{.seed = seed, .scenario = &scenarios()[number % count]};
  plan.outside =
      number / count % 2 == 0 ? Outside::Strangers : Outside::ClockJumps;
  plan.node =
      number / (2 * count) % static_cast<std::size_t>(plan.scenario->nodes);
  return plan;
}

Plan disk_plan(std::uint64_t seed) {
  const std::uint64_t number = seed - kFirstDiskSeed;
  std::vector<const Scenario*> saving;
  for (const Scenario& each : scenarios()) {
    if (each.has_library && each.restarts) {
      saving.push_back(&each);
    }
  }
  return {
      .seed = seed,
      .scenario = saving[number % saving.size()],
      .outside = Outside::FullDisk,
      .amount = 16 + static_cast<int>(number * 7919 % 1600)};
}

} // namespace argosy::testing
