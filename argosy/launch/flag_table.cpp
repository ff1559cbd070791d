#include "argosy/launch/flag_table.h"

namespace argosy::launch {

namespace {

constexpr Flag kRanks[] = {
    {"nproc-per-node",
     "N|auto|cpu|gpu",
     "number of processes on this node (1)",
     "-n,--np"},
    {"nnodes", "N|MIN:MAX", "number of nodes (1); a range needs a rendezvous"},
    {"node-rank", "R", "rank of this node (order of arrival)"},
    {"role", "NAME", "role name of the workers (default)"},
    {"standalone", "", "one node, on a free port, independent of other jobs"},
};

constexpr Flag kMeeting[] = {
    {"master-addr", "HOST", "address of rank 0's host (127.0.0.1)"},
    {"master-port",
     "PORT",
     "port of rank 0's store\n(a free port; 29500 on several nodes with "
     "static)"},
    {"rdzv-backend",
     "static|tcp|c10d|etcd",
     "how nodes find each other\n(static, or tcp if there is an endpoint); "
     "c10d means tcp"},
    {"rdzv-endpoint",
     "HOST[:PORT]|URL",
     "where nodes meet: tcp://host:port or etcd://host:port/prefix,\n"
     "etcds:// for https (port 29400; for etcd 2379)"},
    {"rdzv-id", "ID", "name of the job, the same on all nodes"},
    {"rdzv-conf",
     "K=V,...",
     "time-outs in seconds: join_timeout (or timeout),\nlast_call_timeout, "
     "keep_alive_timeout"},
    {"rdzv-timeout", "SECONDS", "how long to wait for the other nodes (600)"},
    {"local-addr", "ADDR", "address under which other nodes reach this one"},
};

constexpr Flag kTrust[] = {
    {"secret-file",
     "FILE",
     "the job's secret, 64 hexadecimal digits, the same on all nodes\n"
     "(ARGOSY_SECRET_FILE, ARGOSY_SECRET, or a new one)"},
    {"secret-stdin",
     "",
     "read the secret from the first line of standard input;\nused for remote "
     "nodes"},
    {"tls-cert", "FILE", "certificate for mutual TLS (ARGOSY_TLS_CERT)"},
    {"tls-key", "FILE", "its key (ARGOSY_TLS_KEY)"},
    {"tls-ca",
     "FILE",
     "the authority that signs all certificates (ARGOSY_TLS_CA)"},
};

constexpr Flag kHosts[] = {
    {"hostfile",
     "FILE",
     "hosts, one per line: `host slots=N` or `host:N`;\nargosy must be "
     "installed there under the same path"},
    {"ssh-command", "COMMAND", "command to use instead of ssh"},
    {"ssh-args", "WORDS", "additional arguments for ssh"},
    {"exit-with-stdin",
     "",
     "end the job when standard input ends; used for remote nodes"},
};

constexpr Flag kServers[] = {
    {"server-num", "N", "number of servers on this node"},
    {"trainer-num", "N", "number of trainers on this node"},
    {"servers", "H:P,...", "all servers of the job; starts those of this host"},
    {"trainers",
     "H:P,...",
     "all trainers of the job; starts those of this host"},
};

constexpr Flag kProgram[] = {
    {"module", "", "PROGRAM is a Python module", "-m"},
    {"no-python", "", "execute a *.py file directly, without python3"},
    {"run-path", "", "run the file with Python's runpy"},
    {"env", "KEY=VALUE", "set a variable for the program; repeatable"},
    {"dry-run", "", "print what would be started, and exit"},
};

constexpr Flag kOutput[] = {
    {"log-dir",
     "DIR",
     "folder for log files; without -r or -t, all output goes to files and\nto "
     "the console"},
    {"log-names",
     "torchrun|paddle|msrun",
     "names of the log files: <run>/attempt_<n>/<local rank>/stdout.log\n"
     "(torchrun), workerlog.<local rank>, or worker_<rank>.log (torchrun)"},
    {"redirects",
     "S",
     "write these streams to files instead of the console:\n0 none, 1 stdout, "
     "2 stderr, 3 both; or by local rank: 0:1,1:2",
     "-r"},
    {"tee", "S", "write these streams to files and to the console", "-t"},
    {"local-ranks-filter",
     "R,...",
     "show only these local ranks on the console"},
};

constexpr Flag kFailure[] = {
    {"max-restarts", "N", "how often to restart after a failure (0)"},
    {"restart-policy",
     "job|worker",
     "what restarts: all workers of all nodes, or the worker that failed,\n"
     "while the others keep running (job)"},
    {"monitor-interval", "SECONDS", "how often to check the other nodes (0.1)"},
    {"grace", "SECONDS", "time between SIGTERM and SIGKILL for workers (30)"},
    {"signals-to-handle",
     "SIG,...",
     "signals that end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},
};

constexpr Flag kBinding[] = {
    {"bind-to",
     "core|numa|socket|none",
     "bind each worker to its own cores, or to the cores of its\nNUMA node or "
     "socket (none)"},
    {"numa-binding",
     "MODE",
     "as torchrun: node (numa), socket, exclusive or core-complex (core)"},
};

constexpr Flag kIgnored[] = {
    {"start-method", "METHOD", ""},
    {"event-log-handler", "NAME", ""},
    {"logs-specs", "NAME", ""},
};

constexpr Flag kPaddle[] = {
    {"master", "HOST:PORT|URL", "--rdzv-endpoint; --master-addr on one node"},
    {"rank", "R", "--node-rank"},
    {"devices",
     "I,...",
     "a process for each device, and CUDA_VISIBLE_DEVICES",
     "--gpus,--xpus,--npus"},
    {"ips", "H,...", "--nnodes, --node-rank and --master-addr"},
    {"start-port", "PORT", "--master-port, with --ips (6070)"},
    {"host", "ADDR", "--local-addr"},
    {"job-id", "ID", "--rdzv-id"},
    {"run-mode", "collective|ps", "ps: --server-num, --trainer-num"},
    {"max-restart", "N", "--max-restarts"},
    {"elastic-level", "-1|1", "1: --max-restarts 3, or --max-restart"},
    {"elastic-server", "HOST:PORT", "--rdzv-endpoint etcd://HOST:PORT"},
    {"elastic-timeout", "SECONDS", "--rdzv-conf last_call_timeout"},
    {"auto-parallel-config", "FILE", "refused"},
    {"auto-cluster-config", "FILE", "refused"},
    {"auto-tuner-json", "FILE", "refused"},
    {"log-level", "LEVEL", "without effect; see ARGOSY_LOG"},
    {"log-overwrite", "BOOL", "without effect"},
    {"enable-gpu-log", "BOOL", "without effect"},
    {"sort-ip", "BOOL", "without effect"},
    {"legacy", "BOOL", "without effect"},
    {"gloo-port", "PORT", "without effect"},
    {"with-gloo", "0|1", "without effect"},
};

constexpr Flag kMsrun[] = {
    {"worker-num", "N", "--nnodes times --nproc-per-node"},
    {"local-worker-num", "N", "--nproc-per-node"},
    {"join", "True", "argosy run always waits"},
    {"cluster-time-out", "SECONDS", "--rdzv-timeout"},
    {"bind-core", "BOOL", "True: --bind-to core"},
    {"rank-table-file", "FILE", "--env RANK_TABLE_FILE=FILE"},
    {"tail-worker-log", "R,...", "--local-ranks-filter"},
    {"worker-log-name", "NAME", "refused; see --log-names"},
    {"sim-level", "N", "refused; see --dry-run"},
    {"sim-rank-id", "R", "refused; see --dry-run"},
};

constexpr FlagTheme kThemes[] = {
    {"Ranks", kRanks},
    {"Several nodes", kMeeting},
    {"Who may talk (docs/security.md)", kTrust},
    {"Start other hosts through ssh", kHosts},
    {"Parameter servers", kServers},
    {"Program", kProgram},
    {"Output", kOutput},
    {"Failures and signals", kFailure},
    {"Processors", kBinding},
    {"Accepted for compatibility with torchrun, without effect", kIgnored},
    {"Of Paddle's launcher, and what they mean here", kPaddle, true},
    {"Of MindSpore's msrun, and what they mean here", kMsrun, true},
};

} // namespace

std::span<const FlagTheme> flag_themes() {
  return kThemes;
}

} // namespace argosy::launch
