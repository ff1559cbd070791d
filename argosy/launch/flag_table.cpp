#include "argosy/launch/flag_table.h"

namespace argosy::launch {

namespace {

constexpr const char* kRanks = "Ranks";
constexpr const char* kMeeting = "Several nodes";
constexpr const char* kHosts = "Start on other hosts by ssh";
constexpr const char* kServers = "Parameter servers";
constexpr const char* kProgram = "Program";
constexpr const char* kOutput = "Output";
constexpr const char* kFailure = "Failures and signals";
constexpr const char* kBinding = "Processors";
constexpr const char* kIgnored = "Accepted for torchrun's sake, without effect";

constexpr Flag kFlags[] = {
    {"nproc-per-node",
     "-n,--np",
     "N|auto|cpu|gpu",
     kRanks,
     "processes on this node (1)"},
    {"nnodes",
     "",
     "N|MIN:MAX",
     kRanks,
     "nodes of the job (1); between MIN and MAX of them with a rendezvous"},
    {"node-rank", "", "R", kRanks, "which node this is (by arrival)"},
    {"role", "", "NAME", kRanks, "name of the workers (default)"},
    {"standalone",
     "",
     "",
     kRanks,
     "one node, a free port, nothing shared with other jobs"},

    {"master-addr", "", "HOST", kMeeting, "host of rank 0 (127.0.0.1)"},
    {"master-port",
     "",
     "PORT",
     kMeeting,
     "port for rank 0's store (a free one; 29500 with static)"},
    {"rdzv-backend",
     "",
     "static|tcp|c10d|etcd",
     kMeeting,
     "how nodes find each other (static; tcp with an endpoint). c10d is tcp"},
    {"rdzv-endpoint",
     "",
     "HOST[:PORT]|URL",
     kMeeting,
     "where they meet (port 29400); tcp://host:port, etcd://host:port/prefix"},
    {"rdzv-id", "", "ID", kMeeting, "name of the job, the same on all nodes"},
    {"rdzv-conf",
     "",
     "K=V,...",
     kMeeting,
     "timeout or join_timeout, last_call_timeout, keep_alive_timeout: seconds"},
    {"rdzv-timeout",
     "",
     "SECONDS",
     kMeeting,
     "how long to wait for the other nodes (600)"},
    {"local-addr", "", "ADDR", kMeeting, "address of this node for the others"},

    {"hostfile",
     "",
     "FILE",
     kHosts,
     "lines `host slots=N` or `host:N`; `argosy` must be there too"},
    {"ssh-command", "", "COMMAND", kHosts, "instead of ssh"},
    {"ssh-args", "", "WORDS", kHosts, "further arguments of ssh"},
    {"exit-with-stdin",
     "",
     "",
     kHosts,
     "end the job when standard input ends; how remote nodes are started"},

    {"server-num", "", "N", kServers, "servers on this node"},
    {"trainer-num", "", "N", kServers, "trainers on this node"},
    {"servers", "", "H:P,...", kServers, "all servers; local ones start here"},
    {"trainers",
     "",
     "H:P,...",
     kServers,
     "all trainers; local ones start here"},

    {"module", "-m", "", kProgram, "the program is a Python module"},
    {"no-python", "", "", kProgram, "run even a *.py file directly"},
    {"run-path", "", "", kProgram, "run the file with runpy, in Python"},
    {"env", "", "KEY=VALUE", kProgram, "set a variable for it; repeatable"},
    {"dry-run", "", "", kProgram, "print what would be started, and end"},

    {"log-dir", "", "DIR", kOutput, "where the folders of log files go"},
    {"redirects",
     "-r",
     "S",
     kOutput,
     "to files instead of the console: 0 none, 1 stdout, 2 stderr, 3 both; or "
     "by local rank, 0:1,1:2"},
    {"tee", "-t", "S", kOutput, "the same, to files and the console"},
    {"local-ranks-filter",
     "",
     "R,...",
     kOutput,
     "show only these local ranks on the console"},

    {"max-restarts",
     "",
     "N",
     kFailure,
     "start all again, at most so often, when a worker fails (0)"},
    {"monitor-interval",
     "",
     "SECONDS",
     kFailure,
     "how often to look at the other nodes (0.1)"},
    {"grace",
     "",
     "SECONDS",
     kFailure,
     "from asking workers to end until killing them (30)"},
    {"signals-to-handle",
     "",
     "SIG,...",
     kFailure,
     "signals that end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)"},

    {"bind-to",
     "",
     "core|numa|socket|none",
     kBinding,
     "give each worker its own cores, or the cores of its domain (none)"},
    {"numa-binding",
     "",
     "MODE",
     kBinding,
     "torchrun's: node is numa, socket; exclusive and core-complex are core"},

    {"start-method", "", "METHOD", kIgnored, ""},
    {"event-log-handler", "", "NAME", kIgnored, ""},
    {"logs-specs", "", "NAME", kIgnored, ""},
};

} // namespace

std::span<const Flag> flag_table() {
  return kFlags;
}

} // namespace argosy::launch
