#include "argosy/launch/foreign_flags.h"

#include <optional>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/launch/flag_table.h"

namespace argosy::launch {

namespace {

// Takes foreign flags out of a command line and puts ours in.
class Translation {
 public:
  explicit Translation(CommandLine& line) : line_(line) {}

  bool has(const std::string& name) const { return line_.has(name); }
  std::string get(const std::string& name) const { return line_.get(name, ""); }

  // Removes a flag; nullopt if it was not given.
  std::optional<std::string> take(const std::string& name) {
    const auto found = line_.values.find(name);
    if (found == line_.values.end()) {
      return std::nullopt;
    }
    std::string value = found->second;
    line_.values.erase(found);
    return value;
  }

  void put(const std::string& name, const std::string& value) {
    line_.values[name] = value;
  }
  // What the user wrote in our own words goes first.
  void put_if_absent(const std::string& name, const std::string& value) {
    line_.values.emplace(name, value);
  }
  void put_env(const std::string& entry) {
    line_.env.insert(line_.env.begin(), entry); // --env comes after it
  }

  // The same flag by another name.
  void rename(const std::string& from, const std::string& to) {
    if (const auto value = take(from)) {
      put_if_absent(to, *value);
    }
  }

  [[noreturn]] static void refuse(
      const std::string& name,
      const std::string& value,
      const std::string& instead) {
    throw InvalidArgument(
        str_format("[launch.options] --{} {}: {}", name, value, instead));
  }

  std::optional<long long> take_int(const std::string& name) {
    const auto text = take(name);
    if (!text) {
      return std::nullopt;
    }
    const auto number = parse_int(*text);
    if (!number) {
      refuse(name, *text, "expected a number");
    }
    return number;
  }

  std::optional<bool> take_bool(const std::string& name) {
    const auto text = take(name);
    if (!text) {
      return std::nullopt;
    }
    Environment as_variable;
    as_variable.set(name, *text);
    try {
      return as_variable.find_bool(name);
    } catch (const InvalidArgument&) {
      refuse(name, *text, "expected True or False");
    }
  }

 private:
  CommandLine& line_;
};

// A node rank of -1 leaves it to the order of arrival, in both launchers.
void translate_node_rank(Translation& flags) {
  flags.rename("rank", "node-rank");
  if (flags.get("node-rank") == "-1") {
    flags.take("node-rank");
  }
}

// Paddle's nodes meet at the master, which is one of them, or at etcd.
void translate_master(Translation& flags) {
  const auto master = flags.take("master");
  if (!master) {
    return;
  }
  const bool several = flags.has("nnodes") && flags.get("nnodes") != "1";
  if (several || master->find("://") != std::string::npos) {
    flags.put_if_absent("rdzv-endpoint", *master);
    return;
  }
  const Endpoint endpoint =
      parse_endpoint(*master, "[launch.options] --master", 29500);
  flags.put_if_absent("master-addr", endpoint.host);
  flags.put_if_absent("master-port", std::to_string(endpoint.port));
}

// One process for each device, which is what LOCAL_RANK numbers.
void translate_devices(Translation& flags) {
  const auto list = flags.take("devices");
  if (!list) {
    return;
  }
  const auto devices = split(*list, ',');
  for (const std::string& device : devices) {
    if (!parse_int(trim(device))) {
      Translation::refuse(
          "devices", *list, "expected numbers of devices, as in 0,1,2,3");
    }
  }
  flags.put_if_absent("nproc-per-node", std::to_string(devices.size()));
  flags.put_env(str("CUDA_VISIBLE_DEVICES=", *list));
}

void translate_ips(
    Translation& flags,
    const std::function<bool(const std::string&)>& is_local) {
  const auto list = flags.take("ips");
  const auto port = flags.take("start-port");
  if (!list) {
    return;
  }
  const auto hosts = split(*list, ',');
  if (hosts.size() <= 1) {
    return;
  }
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (is_local(hosts[i])) {
      own.push_back(i);
    }
  }
  if (own.size() != 1 && !flags.has("node-rank")) {
    Translation::refuse(
        "ips",
        *list,
        str(own.size(),
            " of these are this machine, expected 1; say which with "
            "--node-rank"));
  }
  flags.put_if_absent("nnodes", std::to_string(hosts.size()));
  flags.put_if_absent(
      "node-rank", own.empty() ? "" : std::to_string(own.front()));
  flags.put_if_absent("master-addr", hosts.front());
  flags.put_if_absent("master-port", port.value_or("6070"));
}

void translate_run_mode(Translation& flags) {
  const auto mode = flags.take("run-mode");
  if (!mode || *mode == "collective") {
    return;
  }
  if (*mode != "ps") {
    Translation::refuse(
        "run-mode",
        *mode,
        "expected collective, or ps (--server-num and --trainer-num)");
  }
  if (!flags.has("servers")) {
    flags.put_if_absent("server-num", "1");
    flags.put_if_absent("trainer-num", "1");
  }
}

// Level 1 restarts all workers where they are, as --max-restarts does.
void translate_elastic(Translation& flags) {
  const auto level = flags.take_int("elastic-level");
  if (level == 0) {
    Translation::refuse(
        "elastic-level",
        "0",
        "a node that failed cannot return to its job; use --elastic-level 1 "
        "(--max-restarts), or --nnodes MIN:MAX with a rendezvous");
  }
  if (level.value_or(-1) > 0) {
    flags.put_if_absent("max-restart", "3"); // Paddle's default
  }
  if (const auto etcd = flags.take("elastic-server")) {
    const bool is_url = etcd->find("://") != std::string::npos;
    flags.put_if_absent("rdzv-endpoint", is_url ? *etcd : "etcd://" + *etcd);
  }
  flags.rename("max-restart", "max-restarts");
  if (const auto time = flags.take("elastic-timeout")) {
    const std::string before = flags.get("rdzv-conf");
    flags.put(
        "rdzv-conf",
        str(before, before.empty() ? "" : ",", "last_call_timeout=", *time));
  }
}

void translate_paddle(
    Translation& flags,
    const std::function<bool(const std::string&)>& is_local) {
  for (const char* name :
       {"auto-parallel-config", "auto-cluster-config", "auto-tuner-json"}) {
    if (const auto value = flags.take(name)) {
      Translation::refuse(
          name, *value, "the launcher tunes nothing; see argosy plan --help");
    }
  }
  flags.rename("job-id", "rdzv-id");
  flags.rename("host", "local-addr");
  translate_master(flags);
  translate_devices(flags);
  translate_ips(flags, is_local);
  translate_run_mode(flags);
  translate_elastic(flags);
}

// msrun counts the workers of the job and of this node.
void translate_worker_numbers(Translation& flags) {
  const auto all = flags.take_int("worker-num");
  const auto local = flags.take_int("local-worker-num");
  if (!all && !local) {
    return;
  }
  const long long here = local ? *local : *all;
  const long long total = all.value_or(here);
  if (here < 1 || total < 1 || total % here != 0) {
    Translation::refuse(
        "worker-num",
        std::to_string(total),
        str_format(
            "expected a multiple of --local-worker-num {}; nodes with "
            "different numbers of workers meet with --nnodes, "
            "--rdzv-endpoint and -n",
            here));
  }
  flags.put_if_absent("nproc-per-node", std::to_string(here));
  flags.put_if_absent("nnodes", std::to_string(total / here));
  if (total == here) {
    flags.take("node-rank"); // as msrun: there is only one node
    return;
  }
  // Nodes that were told no rank get one where they meet.
  const std::string address = flags.take("master-addr").value_or("127.0.0.1");
  const std::string port = flags.take("master-port").value_or("8118");
  if (flags.has("node-rank")) {
    flags.put("master-addr", address);
    flags.put("master-port", port);
  } else {
    flags.put_if_absent("rdzv-endpoint", str(address, ":", port));
  }
}

void translate_msrun(Translation& flags) {
  if (flags.take_bool("join") == false) {
    Translation::refuse(
        "join",
        "False",
        "argosy run always waits for its workers; leave --join out, and put "
        "the command into the background with &");
  }
  for (const char* name : {"sim-level", "sim-rank-id"}) {
    if (const auto value = flags.take(name)) {
      Translation::refuse(
          name, *value, "to see what would be started, use --dry-run");
    }
  }
  if (const auto value = flags.take("worker-log-name")) {
    Translation::refuse(
        "worker-log-name", *value, "use --log-names msrun (worker_<rank>.log)");
  }
  if (const auto limit = flags.take_int("cluster-time-out")) {
    // Negative: for ever. A week is as good, and ends.
    flags.put_if_absent(
        "rdzv-timeout", *limit < 0 ? "168h" : std::to_string(*limit));
  }
  if (flags.take_bool("bind-core") == true) {
    flags.put_if_absent("bind-to", "core");
  }
  if (const auto file = flags.take("rank-table-file")) {
    flags.put_env(str("RANK_TABLE_FILE=", *file));
  }
  flags.rename("tail-worker-log", "local-ranks-filter");
  translate_worker_numbers(flags);
}

} // namespace

void translate_foreign_flags(
    CommandLine& line,
    const std::function<bool(const std::string&)>& is_local) {
  Translation flags(line);
  translate_node_rank(flags);
  translate_paddle(flags, is_local);
  translate_msrun(flags);
  // What is left has no effect here.
  for (const FlagTheme& theme : flag_themes()) {
    for (const Flag& flag : theme.flags) {
      if (theme.is_foreign) {
        flags.take(flag.name);
      }
    }
  }
}

} // namespace argosy::launch
