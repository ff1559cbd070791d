#include "argosy/launch/options.h"

#include <sched.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

// Reads flags of one command line by name; every error names flag and value.
class Reader {
 public:
  explicit Reader(const CommandLine& line) : line_(line) {}

  bool has(const std::string& name) const { return line_.has(name); }
  bool on(const std::string& name) const { return line_.get(name, "0") == "1"; }
  std::string text(const std::string& name, std::string_view fallback) const {
    return line_.get(name, fallback);
  }

  [[noreturn]] void fail(
      const std::string& name, std::string_view expected) const {
    throw InvalidArgument(str_format(
        "[launch.options] --{} {}: expected {}",
        name,
        line_.get(name, ""),
        expected));
  }

  int integer(
      const std::string& name, int fallback, int lowest, int highest) const {
    const auto value = parse_int(text(name, std::to_string(fallback)));
    if (!value || *value < lowest || *value > highest) {
      fail(name, str("an integer in [", lowest, ", ", highest, "]"));
    }
    return static_cast<int>(*value);
  }

  std::chrono::milliseconds time(
      const std::string& name, std::chrono::milliseconds fallback) const {
    if (!has(name)) {
      return fallback;
    }
    const auto seconds = parse_seconds(text(name, ""));
    if (!seconds || *seconds < 0) {
      fail(name, "a time such as 30, 500ms or 2m");
    }
    return std::chrono::milliseconds(static_cast<long long>(*seconds * 1000));
  }

 private:
  const CommandLine& line_;
};

// Finds typos; far above any real job.
constexpr int kMostProcesses = 1 << 20;

int read_nproc(const Reader& flags, int num_cpus, int num_gpus) {
  const std::string text = flags.text("nproc-per-node", "1");
  if (text == "auto") {
    return num_gpus > 0 ? num_gpus : num_cpus;
  }
  if (text == "cpu") {
    return num_cpus;
  }
  if (text == "gpu") {
    ARGOSY_CHECK(
        num_gpus > 0,
        "[launch.options] --nproc-per-node gpu: this node has no CUDA device");
    return num_gpus;
  }
  if (!parse_int(text)) {
    flags.fail("nproc-per-node", "a number, auto, cpu or gpu");
  }
  return flags.integer("nproc-per-node", 1, 1, kMostProcesses);
}

void read_nodes(const Reader& flags, RunOptions& options) {
  const std::string text = flags.text("nnodes", "1");
  const auto parts = split(text, ':');
  const auto lowest = parse_int(parts.empty() ? "" : parts[0]);
  const auto highest = parse_int(parts.empty() ? "" : parts.back());
  const bool valid = lowest && highest && parts.size() <= 2 && *lowest >= 1 &&
      *highest >= *lowest && *highest <= kMostProcesses;
  if (!valid) {
    flags.fail("nnodes", "N or MIN:MAX with 1 <= MIN <= MAX");
  }
  options.min_nodes = static_cast<int>(*lowest);
  options.max_nodes = static_cast<int>(*highest);
  if (flags.has("node-rank")) {
    options.node_rank = flags.integer("node-rank", 0, 0, kMostProcesses);
    if (*options.node_rank >= options.max_nodes) {
      flags.fail("node-rank", str("less than --nnodes ", text));
    }
  }
}

void read_rdzv_conf(const Reader& flags, RdzvOptions& rdzv) {
  for (const std::string& entry : split(flags.text("rdzv-conf", ""), ',')) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    if (equals == std::string::npos) {
      flags.fail("rdzv-conf", "key=value pairs, separated by commas");
    }
    const auto seconds = parse_seconds(entry.substr(equals + 1));
    const auto time = std::chrono::milliseconds(
        static_cast<long long>(seconds.value_or(0) * 1000));
    const bool known = key == "timeout" || key == "join_timeout" ||
        key == "last_call_timeout" || key == "keep_alive_timeout";
    if (known && !seconds) {
      flags.fail("rdzv-conf", str("seconds for ", key));
    }
    if (key == "timeout" || key == "join_timeout") {
      rdzv.timeout = time;
    } else if (key == "last_call_timeout") {
      rdzv.last_call = time;
    } else if (key == "keep_alive_timeout") {
      rdzv.keep_alive = time;
    }
    // Others (is_host, read_timeout, rank, ...) steer parts of torchrun that
    // have no counterpart here.
  }
}

// A scheme in the endpoint names the backend; else a bare endpoint means tcp.
std::string backend_name(const Reader& flags, std::string& endpoint) {
  std::string name = flags.text("rdzv-backend", "");
  const std::size_t scheme_end = endpoint.find("://");
  if (scheme_end != std::string::npos) {
    const std::string scheme = endpoint.substr(0, scheme_end);
    endpoint = endpoint.substr(scheme_end + 3);
    if (!name.empty() && name != scheme &&
        !(name == "c10d" && scheme == "tcp") &&
        !(name == "etcd" && scheme == "etcds")) {
      flags.fail("rdzv-endpoint", str("a URL of --rdzv-backend ", name));
    }
    name = scheme;
  }
  if (name.empty()) {
    name = endpoint.empty() ? "static" : "tcp";
  }
  return name;
}

RdzvBackend read_backend(
    const Reader& flags, std::string& endpoint, bool& https) {
  std::string name = backend_name(flags, endpoint);
  https = name == "etcds";
  name = https ? "etcd" : name;
  ARGOSY_CHECK(
      name != "etcd-v2",
      "[launch.options] --rdzv-backend etcd-v2: the v2 API of etcd is not "
      "supported; use etcd, which uses the v3 API");
  if (name == "static") {
    return RdzvBackend::Static;
  }
  if (name == "tcp" || name == "c10d") {
    return RdzvBackend::Tcp;
  }
  if (name == "etcd") {
    return RdzvBackend::Etcd;
  }
  throw InvalidArgument(str_format(
      "[launch.options] --rdzv-backend {}: expected static, tcp, c10d or etcd",
      name));
}

void read_rdzv(const Reader& flags, RunOptions& options) {
  RdzvOptions& rdzv = options.rdzv;
  rdzv.run_id = flags.text("rdzv-id", "none");
  read_rdzv_conf(flags, rdzv);
  rdzv.timeout = flags.time("rdzv-timeout", rdzv.timeout);
  if (flags.on("standalone")) {
    ARGOSY_CHECK(
        options.max_nodes == 1,
        "[launch.options] --standalone: expected one node, --nnodes is ",
        options.max_nodes);
    return;
  }
  std::string endpoint = flags.text("rdzv-endpoint", "");
  rdzv.backend = read_backend(flags, endpoint, rdzv.https);
  if (rdzv.backend != RdzvBackend::Static) {
    const std::size_t path = std::min(endpoint.find('/'), endpoint.size());
    // The default ports of torchrun's rendezvous and of etcd's clients.
    const int port = rdzv.backend == RdzvBackend::Tcp ? 29400 : 2379;
    // Only etcd has several members, of which any serves.
    const auto members = rdzv.backend == RdzvBackend::Etcd
        ? split(endpoint.substr(0, path), ',')
        : std::vector<std::string>{endpoint.substr(0, path)};
    std::vector<std::string> texts;
    for (const std::string& member : members) {
      texts.push_back(
          parse_endpoint(member, "[launch.options] --rdzv-endpoint", port)
              .text());
    }
    rdzv.endpoint = join(texts, ",") + endpoint.substr(path);
  }
}

void read_master(const Reader& flags, RunOptions& options) {
  const bool is_static = options.rdzv.backend == RdzvBackend::Static;
  options.master_addr = flags.text("master-addr", "127.0.0.1");
  options.local_addr = flags.text("local-addr", "");
  if (flags.has("master-port") && !flags.on("standalone")) {
    // 0 asks for a free port, as in torchrun.
    const int port = flags.integer("master-port", 0, 0, 65535);
    if (port != 0) {
      options.master_port = static_cast<std::uint16_t>(port);
    }
  }
  if (options.max_nodes == 1 || !is_static || flags.has("hostfile")) {
    return;
  }
  ARGOSY_CHECK(
      options.node_rank && options.min_nodes == options.max_nodes,
      "[launch.options] --nnodes {}: without a rendezvous (--rdzv-endpoint), "
      "several nodes need --node-rank, --master-addr and a fixed number of "
      "nodes",
      flags.text("nnodes", ""));
  options.master_port = options.master_port.value_or(29500);
}

void read_trust(const Reader& flags, RunOptions& options) {
  options.secret_file = flags.text("secret-file", "");
  options.secret_stdin = flags.on("secret-stdin");
  options.tls = {
      .certificate = flags.text("tls-cert", ""),
      .key = flags.text("tls-key", ""),
      .ca = flags.text("tls-ca", "")};
  store::check_tls_files(options.tls, "--tls-cert, --tls-key and --tls-ca");
}

std::vector<Endpoint> read_endpoints(
    const Reader& flags, const std::string& name) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : split(flags.text(name, ""), ',')) {
    endpoints.push_back(parse_endpoint(text, str("[launch.options] --", name)));
  }
  return endpoints;
}

void read_servers(const Reader& flags, RunOptions& options) {
  options.servers = read_endpoints(flags, "servers");
  options.trainers = read_endpoints(flags, "trainers");
  ARGOSY_CHECK(
      options.servers.empty() == options.trainers.empty(),
      "[launch.options] --servers and --trainers must be given together");
  const bool counted = flags.has("server-num") || flags.has("trainer-num");
  ARGOSY_CHECK(
      !counted || options.servers.empty(),
      "[launch.options] --server-num and --trainer-num cannot be combined with "
      "--servers and --trainers");
  if (counted) {
    options.num_servers = flags.integer("server-num", 1, 0, kMostProcesses);
    options.num_workers = flags.integer("trainer-num", 1, 0, kMostProcesses);
  }
}

void read_program(const Reader& flags, RunOptions& options) {
  options.dry_run = flags.on("dry-run");
  options.hostfile = flags.text("hostfile", "");
  options.ssh_command = flags.text("ssh-command", "ssh");
  for (const std::string& word : split(flags.text("ssh-args", ""), ' ')) {
    if (!word.empty()) {
      options.ssh_args.push_back(word);
    }
  }
  options.exit_with_stdin = flags.on("exit-with-stdin");
  const std::pair<const char*, ProgramKind> kinds[] = {
      {"module", ProgramKind::Module},
      {"run-path", ProgramKind::RunPath},
      {"no-python", ProgramKind::NoPython}};
  for (const auto& [name, kind] : kinds) {
    if (flags.on(name)) {
      ARGOSY_CHECK(
          options.program_kind == ProgramKind::Automatic,
          "[launch.options] --{}: use only one of --module, --run-path and "
          "--no-python",
          name);
      options.program_kind = kind;
    }
  }
}

void read_env(const CommandLine& line, RunOptions& options) {
  for (const std::string& entry : line.env) {
    const std::size_t equals = entry.find('=');
    ARGOSY_CHECK(
        equals != std::string::npos && equals > 0,
        "[launch.options] --env {}: expected KEY=VALUE",
        entry);
    options.env[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
}

LogNames read_log_names(const Reader& flags) {
  const std::pair<std::string_view, LogNames> all[] = {
      {"torchrun", LogNames::Torchrun},
      {"paddle", LogNames::Paddle},
      {"msrun", LogNames::Msrun}};
  for (const auto& [name, names] : all) {
    if (flags.text("log-names", "torchrun") == name) {
      return names;
    }
  }
  flags.fail("log-names", "torchrun, paddle or msrun");
}

void read_output(const Reader& flags, RunOptions& options) {
  options.log_names = read_log_names(flags);
  const bool has_names = options.log_names != LogNames::Torchrun;
  // Paddle's default folder, for Paddle's names.
  options.log_dir = flags.text("log-dir", has_names ? "log" : "");
  // Who names a folder for logs wants logs, and still looks at the console.
  const bool chooses = flags.has("redirects") || flags.has("tee");
  const char* all = options.log_dir.empty() || chooses ? "0" : "3";
  options.redirects =
      parse_streams(flags.text("redirects", "0"), "--redirects");
  options.tee = parse_streams(flags.text("tee", all), "--tee");
  for (const auto& part : split(flags.text("local-ranks-filter", ""), ',')) {
    const auto rank = parse_int(trim(part));
    if (!rank || *rank < 0) {
      flags.fail("local-ranks-filter", "local ranks, separated by commas");
    }
    options.shown_local_ranks.insert(static_cast<int>(*rank));
  }
}

RestartPolicy read_restart_policy(
    const Reader& flags, const RunOptions& options) {
  const std::string text = flags.text("restart-policy", "job");
  if (text != "job" && text != "worker") {
    flags.fail("restart-policy", "job or worker");
  }
  const bool has_servers = options.num_servers > 0 || !options.servers.empty();
  ARGOSY_CHECK(
      text == "job" || !has_servers,
      "[launch.options] --restart-policy worker: a job with parameter servers "
      "restarts as a whole, expected job");
  return text == "job" ? RestartPolicy::Job : RestartPolicy::Worker;
}

void read_failures(const Reader& flags, RunOptions& options) {
  options.max_restarts = flags.integer("max-restarts", 0, 0, 1 << 30);
  options.restart_policy = read_restart_policy(flags, options);
  options.monitor_interval =
      flags.time("monitor-interval", options.monitor_interval);
  options.grace = flags.time("grace", options.grace);
  const std::string names =
      flags.text("signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  for (const std::string& name : split(names, ',')) {
    const auto signal = parse_signal(trim(name));
    if (!signal || *signal == SIGKILL || *signal == SIGSTOP ||
        *signal == SIGCHLD) {
      flags.fail("signals-to-handle", "names of signals that can be handled");
    }
    options.ending_signals.push_back(*signal);
  }
}

BindTo read_binding(const Reader& flags) {
  const std::string numa = flags.text("numa-binding", "");
  const std::pair<std::string_view, BindTo> numa_modes[] = {
      {"node", BindTo::Numa},
      {"socket", BindTo::Socket},
      {"exclusive", BindTo::Core},
      {"core-complex", BindTo::Core}};
  if (!flags.has("bind-to") && flags.has("numa-binding")) {
    for (const auto& [name, mode] : numa_modes) {
      if (numa == name) {
        return mode;
      }
    }
    flags.fail("numa-binding", "node, socket, exclusive or core-complex");
  }
  for (const BindTo mode :
       {BindTo::None, BindTo::Core, BindTo::Numa, BindTo::Socket}) {
    if (flags.text("bind-to", "none") == to_string(mode)) {
      return mode;
    }
  }
  flags.fail("bind-to", "core, numa, socket or none");
}

} // namespace

RunOptions to_options(const CommandLine& line, int num_cpus, int num_gpus) {
  const Reader flags(line);
  RunOptions options;
  // The order matters: read_rdzv() needs the number of nodes, read_master() the
  // backend, and read_servers() overrides the number of workers.
  read_nodes(flags, options);
  options.num_workers = read_nproc(flags, num_cpus, num_gpus);
  options.role = flags.text("role", "default");
  read_rdzv(flags, options);
  read_master(flags, options);
  read_servers(flags, options);
  read_trust(flags, options);
  read_program(flags, options);
  read_env(line, options);
  read_output(flags, options);
  read_failures(flags, options);
  options.bind_to = read_binding(flags);
  options.program = line.program;
  ARGOSY_CHECK(
      !options.program.empty(),
      "[launch.options] no program is given. See argosy run --help.");
  return options;
}

// Batch systems can announce the end of a job with SIGUSR1 or SIGUSR2, on which
// programs save a checkpoint.
std::vector<int> forwarded_signals(const RunOptions& options) {
  std::vector<int> signals = options.ending_signals;
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    if (std::ranges::find(signals, signal) == signals.end()) {
      signals.push_back(signal);
    }
  }
  return signals;
}

// Counts the CPUs that this process may use, not those of the machine:
// containers and batch systems restrict them.
int count_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Looks for device files /dev/nvidia<N>, since the launcher links neither torch
// nor CUDA.
int count_gpus(const Environment& environment) {
  int count = 0;
  std::error_code missing;
  for (const auto& entry :
       std::filesystem::directory_iterator("/dev", missing)) {
    const std::string name = entry.path().filename().string();
    count += name.starts_with("nvidia") && parse_int(name.substr(6)) ? 1 : 0;
  }
  const auto& variables = environment.variables();
  const auto visible = variables.find("CUDA_VISIBLE_DEVICES");
  return visible == variables.end()
      ? count
      : std::min(count, static_cast<int>(split(visible->second, ',').size()));
}

} // namespace argosy::launch
