#include "argosy/launch/flag_table.h"

namespace argosy::launch {

namespace {

constexpr const char* kRanks = "Ranks";
constexpr const char* kMeeting = "Several nodes";
constexpr const char* kHosts = "Start other hosts through ssh";
constexpr const char* kServers = "Parameter servers";
constexpr const char* kProgram = "Program";
constexpr const char* kOutput = "Output";
constexpr const char* kFailure = "Failures and signals";
constexpr const char* kBinding = "Processors";
constexpr const char* kIgnored =
    "Accepted for compatibility with torchrun, without effect";

constexpr Flag kFlags[] = {
    {"nproc-per-node",
     "-n,--np",
     "N|auto|cpu|gpu",
     kRanks,
     "number of processes on this node (1)"},
    {"nnodes",
     "",
     "N|MIN:MAX",
     kRanks,
     "number of nodes (1); a range needs a rendezvous"},
    {"node-rank", "", "R", kRanks, "rank of this node (order of arrival)"},
    {"role", "", "NAME", kRanks, "role name of the workers (default)"},
    {"standalone",
     "",
     "",
     kRanks,
     "one node, on a free port, independent of other jobs"},

    {"master-addr",
     "",
     "HOST",
     kMeeting,
     "address of rank 0's host (127.0.0.1)"},
    {"master-port",
     "",
     "PORT",
     kMeeting,
     "port of rank 0's store\n(a free port; 29500 on several nodes with "
     "static)"},
    {"rdzv-backend",
     "",
     "static|tcp|c10d|etcd",
     kMeeting,
     "how nodes find each other\n(static, or tcp if there is an endpoint); "
     "c10d means tcp"},
    {"rdzv-endpoint",
     "",
     "HOST[:PORT]|URL",
     kMeeting,
     "where nodes meet: tcp://host:port or etcd://host:port/prefix\n(port "
     "29400; for etcd 2379)"},
    {"rdzv-id", "", "ID", kMeeting, "name of the job, the same on all nodes"},
    {"rdzv-conf",
     "",
     "K=V,...",
     kMeeting,
     "time-outs in seconds: join_timeout (or timeout),\nlast_call_timeout, "
     "keep_alive_timeout"},
    {"rdzv-timeout",
     "",
     "SECONDS",
     kMeeting,
     "how long to wait for the other nodes (600)"},
    {"local-addr",
     "",
     "ADDR",
     kMeeting,
     "address under which other nodes reach this one"},

    {"hostfile",
     "",
     "FILE",
     kHosts,
     "hosts, one per line: `host slots=N` or `host:N`;\nargosy must be "
     "installed there under the same path"},
    {"ssh-command", "", "COMMAND", kHosts, "command to use instead of ssh"},
    {"ssh-args", "", "WORDS", kHosts, "additional arguments for ssh"},
    {"exit-with-stdin",
     "",
     "",
     kHosts,
     "end the job when standard input ends; used for remote nodes"},

    {"server-num", "", "N", kServers, "number of servers on this node"},
    {"trainer-num", "", "N", kServers, "number of trainers on this node"},
    {"servers",
     "",
     "H:P,...",
     kServers,
     "all servers of the job; starts those of this host"},
    {"trainers",
     "",
     "H:P,...",
     kServers,
     "all trainers of the job; starts those of this host"},

    {"module", "-m", "", kProgram, "PROGRAM is a Python module"},
    {"no-python",
     "",
     "",
     kProgram,
     "execute a *.py file directly, without python3"},
    {"run-path", "", "", kProgram, "run the file with Python's runpy"},
    {"env",
     "",
     "KEY=VALUE",
     kProgram,
     "set a variable for the program; repeatable"},
    {"dry-run", "", "", kProgram, "print what would be started, and exit"},

    {"log-dir", "", "DIR", kOutput, "folder for log files"},
    {"redirects",
     "-r",
     "S",
     kOutput,
     "write these streams to files instead of the console:\n0 none, 1 stdout, "
     "2 stderr, 3 both; or by local rank: 0:1,1:2"},
    {"tee",
     "-t",
     "S",
     kOutput,
     "write these streams to files and to the console"},
    {"local-ranks-filter",
     "",
     "R,...",
     kOutput,
     "show only these local ranks on the console"},

    {"max-restarts",
     "",
     "N",
     kFailure,
     "how often to restart all workers after a failure (0)"},
    {"monitor-interval",
     "",
     "SECONDS",
     kFailure,
     "how often to check the other nodes (0.1)"},
    {"grace",
     "",
     "SECONDS",
     kFailure,
     "time between SIGTERM and SIGKILL for workers (30)"},
    {"signals-to-handle",
     "",
     "SIG,...",
     kFailure,
     "signals that end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},

    {"bind-to",
     "",
     "core|numa|socket|none",
     kBinding,
     "bind each worker to its own cores, or to the cores of its\nNUMA node or "
     "socket (none)"},
    {"numa-binding",
     "",
     "MODE",
     kBinding,
     "as torchrun: node (numa), socket, exclusive or core-complex (core)"},

    {"start-method", "", "METHOD", kIgnored, ""},
    {"event-log-handler", "", "NAME", kIgnored, ""},
    {"logs-specs", "", "NAME", kIgnored, ""},
};

} // namespace

std::span<const Flag> flag_table() {
  return kFlags;
}

} // namespace argosy::launch
