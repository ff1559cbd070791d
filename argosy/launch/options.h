#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/common/net.h"
#include "argosy/launch/cpu_binding.h"
#include "argosy/launch/flags.h"
#include "argosy/launch/logs.h"
#include "argosy/store/credentials.h"

namespace argosy::launch {

enum class RdzvBackend { Static, Tcp, Etcd };

// What happens when a worker fails.
enum class RestartPolicy {
  Job,    // all workers of all nodes are started again
  Worker, // this worker is started again, the others keep running
};

enum class ProgramKind { Automatic, Module, RunPath, NoPython };

// How the nodes of a job find each other.
struct RdzvOptions {
  RdzvBackend backend = RdzvBackend::Static;
  // "host:port"; for etcd "host:port[,host:port]/prefix"
  std::string endpoint;
  bool https = false; // for etcd
  std::string run_id = "none";
  std::chrono::milliseconds timeout{600'000};
  // How long to wait for further nodes once the minimum is there.
  std::chrono::milliseconds last_call{30'000};
  // How long a node may be silent before it counts as lost.
  std::chrono::milliseconds keep_alive{5'000};

  bool operator==(const RdzvOptions&) const = default;
};

// The interpreted command line of `argosy run`; docs/launch.md describes the
// flags.
struct RunOptions {
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank;
  int num_workers = 1; // on this node
  int num_servers = 0; // on this node
  std::string role = "default";
  std::string master_addr = "127.0.0.1";
  std::optional<std::uint16_t> master_port;
  std::string local_addr;
  RdzvOptions rdzv;

  // Where the job's secret is; empty and false: in the environment, or none.
  std::string secret_file;
  bool secret_stdin = false;
  store::TlsFiles tls; // empty: as the environment says

  // For parameter server jobs whose processes are all listed; else empty.
  std::vector<Endpoint> servers;
  std::vector<Endpoint> trainers;

  std::string hostfile;
  std::string ssh_command = "ssh";
  std::vector<std::string> ssh_args;
  bool exit_with_stdin = false;

  std::vector<std::string> program; // with its arguments
  ProgramKind program_kind = ProgramKind::Automatic;
  std::map<std::string, std::string> env;
  bool dry_run = false;

  std::string log_dir;
  LogNames log_names = LogNames::Torchrun;
  StreamChoice redirects;
  StreamChoice tee;
  std::set<int> shown_local_ranks; // empty: all

  int max_restarts = 0;
  RestartPolicy restart_policy = RestartPolicy::Job;
  std::chrono::milliseconds monitor_interval{100};
  std::chrono::milliseconds grace{30'000};
  std::vector<int> ending_signals; // those that end the job
  BindTo bind_to = BindTo::None;

  bool operator==(const RunOptions&) const = default;
};

// Interprets the command line. Throws InvalidArgument, naming the flag and its
// value. `num_cpus` and `num_gpus` describe this machine.
RunOptions to_options(const CommandLine& line, int num_cpus, int num_gpus);

// The signals to forward to workers: those that end the job, and SIGUSR1 and
// SIGUSR2, which do not.
std::vector<int> forwarded_signals(const RunOptions& options);

// The number of CPUs that this process may use, and of CUDA devices that
// `environment` makes visible.
int count_cpus();
int count_gpus(const Environment& environment);

} // namespace argosy::launch
