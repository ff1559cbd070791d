#include "argosy/launch/run.h"

#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "argosy/common/environment.h"
#include "argosy/launch/agent.h"
#include "argosy/launch/console.h"
#include "argosy/launch/fd.h"
#include "argosy/launch/flags.h"
#include "argosy/launch/guard.h"
#include "argosy/launch/hosts.h"
#include "argosy/launch/interrupt.h"
#include "argosy/launch/job_secret.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/options.h"
#include "argosy/launch/plan.h"
#include "argosy/launch/program.h"
#include "argosy/launch/rendezvous.h"

namespace argosy::launch {

namespace {

struct Leaving {
  Membership& membership;
  ~Leaving() { membership.leave(); }
};

// The environment that workers inherit; includes --env, which also affects the
// search for the program.
Environment worker_environment(
    const RunOptions& options, Environment environment) {
  for (const auto& [name, value] : options.env) {
    environment.set(name, value);
  }
  return environment;
}

void print_plan(
    const RunOptions& options,
    const std::vector<std::string>& argv,
    const Environment& environment) {
  // A dry run shows this node without waiting for others.
  const auto membership = make_static_membership(options);
  const Topology topology =
      options.bind_to == BindTo::None ? Topology{} : read_topology();
  const std::string run_dir =
      options.log_dir.empty() ? "LOG_DIR" : options.log_dir + "/RUN";
  std::cout << plan_job(
      options, membership->join(), argv, topology, environment, run_dir);
}

// Completes the credentials by a secret if the user gave none and the nodes can
// agree on one.
std::unique_ptr<Membership> make_membership(
    const RunOptions& options,
    const Environment& environment,
    store::Credentials& credentials,
    Interrupt& interrupt) {
  if (options.rdzv.backend == RdzvBackend::Static) {
    if (!credentials.secret && is_one_host(options)) {
      credentials.secret = store::Secret::random();
    }
    return make_static_membership(
        options, environment.get("ARGOSY_STORE", ""), credentials);
  }
  auto store = open_rendezvous_store(
      options.rdzv, options.local_addr, credentials, interrupt);
  if (!credentials.secret) {
    credentials.secret = agree_on_secret(*store.kv, options.rdzv.run_id);
  }
  return make_rendezvous(options, std::move(store), interrupt);
}

// Runs `agent` as a member of the job, with the environment for its workers,
// and leaves the job however it ends.
int run_job(
    const RunOptions& options,
    store::Credentials credentials,
    Environment environment,
    Interrupt& interrupt,
    const std::function<int(Membership&, const Environment&)>& agent) {
  try {
    const auto membership =
        make_membership(options, environment, credentials, interrupt);
    const Leaving leaving{*membership};
    std::optional<store::OfferedSecret> offered;
    if (credentials.secret) {
      offered.emplace(*credentials.secret);
    }
    pass_on(credentials, offered ? &*offered : nullptr, environment);
    return agent(*membership, environment);
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal();
  }
}

} // namespace

// Flags and the program are checked before run_guarded(), so that most mistakes
// are reported before any process starts. Everything that starts threads
// (stores, leases) comes inside it, because the guard forks.
int run(const std::vector<std::string>& words, const HangReader& hang_reader) {
  ensure_stdio();
  const Environment own = Environment::of_process();
  const CommandLine line = parse_command_line(words, own);
  if (line.help) {
    std::cout << run_help();
    return 0;
  }
  const RunOptions options = to_options(line, count_cpus(), count_gpus(own));
  const Environment environment = worker_environment(options, own);
  if (!options.hostfile.empty()) {
    const auto credentials = given_credentials(options, own);
    return run_guarded(forwarded_signals(options), [&](int alive_fd) {
      SignalSource signals(forwarded_signals(options));
      Consoles consoles;
      return run_on_hosts(
          line, options, own, credentials, signals, alive_fd, consoles);
    });
  }
  const auto argv = program_argv(options, environment);
  if (options.dry_run) {
    print_plan(options, argv, environment);
    return 0;
  }
  const auto credentials = given_credentials(options, own);
  return run_guarded(forwarded_signals(options), [&](int alive_fd) {
    SignalSource signals(forwarded_signals(options));
    Consoles consoles; // ends last, when nothing is left to supervise
    Interrupt interrupt(signals, options.ending_signals, alive_fd);
    const auto agent = [&](Membership& membership,
                           const Environment& inherited) {
      return run_agent(
          options,
          argv,
          inherited,
          membership,
          signals,
          alive_fd,
          consoles,
          hang_reader);
    };
    return run_job(options, credentials, environment, interrupt, agent);
  });
}

} // namespace argosy::launch
