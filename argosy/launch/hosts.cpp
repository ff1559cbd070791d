#include "argosy/launch/hosts.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/launch/plan.h"
#include "argosy/launch/program.h"
#include "argosy/launch/shell.h"
#include "argosy/launch/summary.h"
#include "argosy/launch/supervisor.h"
#include "argosy/store/kv_server.h"

namespace argosy::launch {

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string spaced(text);
  std::ranges::replace(spaced, '\t', ' ');
  for (const std::string& word : split(trim(spaced), ' ')) {
    if (!word.empty()) {
      words.push_back(word);
    }
  }
  return words;
}

int parse_slots(std::string_view text, std::string_view where) {
  const auto slots = parse_int(text);
  ARGOSY_CHECK(
      slots && *slots >= 1 && *slots <= 1 << 20,
      "[launch.hosts] --hostfile {}: {} is not a number of processes",
      where,
      text);
  return static_cast<int>(*slots);
}

HostSlots parse_host(
    const std::vector<std::string>& words, std::string_view where) {
  HostSlots host{.host = words[0]};
  // One colon means host:N, several an IPv6 address.
  const std::size_t colon = host.host.find(':');
  if (colon != std::string::npos && colon == host.host.rfind(':')) {
    host.slots = parse_slots(host.host.substr(colon + 1), where);
    host.host.resize(colon);
  }
  // ssh would take it for an option, of which some run a program here.
  ARGOSY_CHECK(
      !host.host.empty() && host.host[0] != '-',
      "[launch.hosts] --hostfile {}: \"{}\" is not a host, expected a name or "
      "an address",
      where,
      words[0]);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    ARGOSY_CHECK(
        equals != std::string::npos,
        "[launch.hosts] --hostfile {}: expected key=value after the host, "
        "found {}",
        where,
        words[i]);
    if (words[i].substr(0, equals) == "slots") {
      host.slots = parse_slots(words[i].substr(equals + 1), where);
    }
  }
  return host;
}

// Flags that this launcher replaces for the other hosts, or keeps to itself.
bool stays_here(const std::string& flag) {
  static const std::set<std::string> kKept = {
      "hostfile",
      "ssh-command",
      "ssh-args",
      "nnodes",
      "node-rank",
      "nproc-per-node",
      "master-addr",
      "local-addr",
      "rdzv-backend",
      "rdzv-endpoint",
      "rdzv-id",
      "secret-file",
      "secret-stdin",
      "standalone",
      "dry-run"};
  return kKept.count(flag) > 0;
}

// Variables that locate libraries or affect training. ssh starts the command
// with an environment of its own.
bool is_forwarded(const std::string& name) {
  // On a command line, all users of the host could read them.
  constexpr std::string_view kSecrets[] = {
      "ARGOSY_SECRET", "ARGOSY_SECRET_FILE", "ARGOSY_ETCD_PASSWORD"};
  if (std::find(std::begin(kSecrets), std::end(kSecrets), name) !=
      std::end(kSecrets)) {
    return false;
  }
  constexpr std::string_view kNames[] = {
      "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHON_EXEC"};
  constexpr std::string_view kPrefixes[] = {
      "ARGOSY_",
      "OMP_",
      "MKL_",
      "OPENBLAS_",
      "TORCH",
      "NCCL_",
      "GLOO_",
      "CUDA_",
      "TP_"};
  return std::find(std::begin(kNames), std::end(kNames), name) !=
      std::end(kNames) ||
      std::any_of(
             std::begin(kPrefixes),
             std::end(kPrefixes),
             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// The command, and the flags for its position in the job. --exit-with-stdin
// ties the remote launcher to its ssh connection: sshd sends no signal to a
// command without a terminal, but closes its stdin.
std::vector<std::string> place_flags(
    const CommandLine& line, const RemoteNode& node) {
  const int slots = node.host.slots;
  return {
      node.command,
      "run",
      "--exit-with-stdin",
      "--secret-stdin",
      str("--nnodes=", node.num_nodes),
      str("--node-rank=", node.node_rank),
      str("--nproc-per-node=",
          slots > 0 ? str(slots) : line.get("nproc-per-node", "1")),
      str("--rdzv-endpoint=tcp://", node.endpoint),
      str("--rdzv-id=", node.run_id)};
}

std::string random_id() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex << random() << random();
  return text.str();
}

} // namespace

std::vector<HostSlots> parse_hostfile(
    std::string_view text, std::string_view path) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const auto words = words_of(line.substr(0, line.find('#')));
    if (!words.empty()) {
      hosts.push_back(parse_host(words, str(path, ":", number)));
    }
  }
  ARGOSY_CHECK(
      !hosts.empty(), "[launch.hosts] --hostfile {}: contains no host", path);
  return hosts;
}

std::string remote_command(
    const CommandLine& line,
    const RemoteNode& node,
    const Environment& environment) {
  // exec: no shell stays between sshd and the launcher.
  std::vector<std::string> words = {"exec", "env"};
  for (const auto& [name, value] : environment.variables()) {
    if (is_forwarded(name)) {
      words.push_back(str(name, "=", value));
    }
  }
  const auto place = place_flags(line, node);
  words.insert(words.end(), place.begin(), place.end());
  for (const auto& [flag, value] : line.values) {
    if (!stays_here(flag)) {
      words.push_back(str("--", flag, "=", value));
    }
  }
  for (const std::string& entry : line.env) {
    words.push_back(str("--env=", entry));
  }
  words.push_back("--");
  words.insert(words.end(), line.program.begin(), line.program.end());
  return str("cd ", shell_quote(node.folder), " && ", shell_join(words));
}

namespace {

std::vector<std::string> ssh_words(
    const RunOptions& options, const Environment& environment) {
  RunOptions ssh;
  ssh.program = words_of(options.ssh_command);
  ssh.program_kind = ProgramKind::NoPython;
  ARGOSY_CHECK(!ssh.program.empty(), "[launch.hosts] --ssh-command is empty");
  std::vector<std::string> words = program_argv(ssh, environment);
  words.insert(words.end(), options.ssh_args.begin(), options.ssh_args.end());
  if (options.ssh_command == "ssh") {
    // ssh could not ask for a password: the terminal is not its own.
    words.insert(words.end(), {"-o", "BatchMode=yes"});
  }
  return words;
}

// The address of this machine under which each host reaches it.
std::vector<std::string> addresses_towards(
    const std::vector<HostSlots>& hosts) {
  std::vector<std::string> addresses;
  for (const HostSlots& host : hosts) {
    addresses.push_back(address_towards(host.host));
  }
  return addresses;
}

// The one address that all hosts use, or all interfaces.
std::string common_address(const std::vector<std::string>& addresses) {
  const bool same = std::ranges::all_of(
      addresses, [&](const auto& each) { return each == addresses[0]; });
  return same ? addresses[0] : "";
}

JobPlan plan_hosts(
    const CommandLine& line,
    const RunOptions& options,
    const Environment& environment,
    const std::vector<HostSlots>& hosts,
    const std::vector<std::string>& addresses,
    const store::Secret& secret,
    std::uint16_t port) {
  const auto ssh = ssh_words(options, environment);
  RemoteNode node;
  node.num_nodes = static_cast<int>(hosts.size());
  node.run_id = line.get("rdzv-id", random_id());
  // Hosts share a file system, or have the same files at the same paths.
  node.command = std::filesystem::read_symlink("/proc/self/exe").string();
  node.folder = std::filesystem::current_path().string();
  JobPlan plan;
  for (const HostSlots& host : hosts) {
    node.host = host;
    // This machine may have several interfaces; each host gets the address on
    // its own route.
    node.endpoint = Endpoint{addresses[node.node_rank], port}.text();
    WorkerSpec worker{
        .identity = {
            .role = "node",
            .rank = node.node_rank,
            .size = node.num_nodes,
            .local_rank = node.node_rank,
            .local_size = node.num_nodes}};
    worker.argv = ssh;
    worker.argv.push_back(host.host);
    worker.argv.push_back(remote_command(line, node, environment));
    // A signal would only end ssh here. The end of stdin reaches the other side
    // (Supervisor::check_stdin() there).
    worker.ends_with_stdin = true;
    worker.stdin_text = secret.hex() + "\n";
    plan.workers.push_back(std::move(worker));
    ++node.node_rank;
  }
  return plan;
}

// Added to the hosts' own limits, so that they end by themselves and report
// why.
constexpr std::chrono::milliseconds kMargin{5'000};

int exit_code(
    const std::vector<HostSlots>& hosts,
    const JobPlan& plan,
    const Outcome& outcome) {
  if (outcome.signal != 0) {
    return 128 + outcome.signal;
  }
  const auto failures = collect_failures(plan, outcome);
  for (const Failure& failure : failures) {
    std::cerr << "argosy run: " << hosts[failure.rank].host << ": "
              << failure.status.text() << std::endl;
  }
  return failures.empty() ? 0 : failures[0].status.shell_code();
}

} // namespace

int run_on_hosts(
    const CommandLine& line,
    const RunOptions& options,
    const Environment& environment,
    const store::Credentials& given,
    SignalSource& signals,
    int alive_fd,
    Consoles& consoles) {
  const auto text = read_file(options.hostfile);
  ARGOSY_CHECK(
      text.has_value(),
      "[launch.hosts] --hostfile {}: no such file",
      options.hostfile);
  const auto hosts = parse_hostfile(*text, options.hostfile);
  // Here and not on the first host, so that the store outlives every node.
  store::Credentials credentials = given;
  credentials.secret = given.secret.value_or(store::Secret::random());
  const auto addresses = addresses_towards(hosts);
  const store::KvServer server(
      Endpoint{common_address(addresses), 0}, {.credentials = credentials});
  const JobPlan plan = plan_hosts(
      line,
      options,
      environment,
      hosts,
      addresses,
      *credentials.secret,
      server.port());
  if (options.dry_run) {
    std::cout << plan;
    return 0;
  }
  const SuperviseOptions supervise_options{
      .consoles = consoles,
      .grace = options.grace + kMargin,
      .linger = options.grace + kMargin,
      .ending_signals = options.ending_signals,
      .alive_fd = alive_fd};
  const Outcome outcome =
      supervise(plan, environment, supervise_options, signals);
  return exit_code(hosts, plan, outcome);
}

} // namespace argosy::launch
