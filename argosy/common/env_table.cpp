#include "argosy/common/env_table.h"

namespace argosy {

namespace {

constexpr EnvVariable kTable[] = {
    {"ARGOSY_ADOPT",
     "automatic",
     "launch environment to adopt, by its name in `argosy env`; decides "
     "between two that disagree"},
    {"ARGOSY_CHECK_VALUES",
     "3",
     "how often ranks compare each plain tensor that must be the same on all "
     "of them, by op and shape; 0: never, nor initial values"},
    {"ARGOSY_ETCD_PASSWORD",
     "none",
     "password of ARGOSY_ETCD_USER; ARGOSY_ETCD_PASSWORD_FILE keeps it out of "
     "the environment"},
    {"ARGOSY_ETCD_PASSWORD_FILE",
     "none",
     "file with the password of ARGOSY_ETCD_USER"},
    {"ARGOSY_ETCD_USER", "none", "user of etcd, where it asks for one"},
    {"ARGOSY_EXCHANGE",
     "depends on the launcher",
     "how ranks under an MPI launcher learn rank 0's address if no variable "
     "gives it: file, pmi or pmix"},
    {"ARGOSY_FAULT",
     "none",
     "for tests: makes the process fail at a named place, \"NAME:kill\" or "
     "\"NAME:throw:3\" for the third time; see faults.md"},
    {"ARGOSY_FAULT_ONCE",
     "none",
     "for tests: a file; ARGOSY_FAULT holds until a process has created it"},
    {"ARGOSY_FAULT_RANK",
     "all ranks",
     "for tests: the rank for which ARGOSY_FAULT holds, or launcher"},
    {"ARGOSY_FAULT_VISITS",
     "none",
     "for tests: a folder where processes write which fault points they come "
     "to"},
    {"ARGOSY_FLIGHT_DIR",
     "none; set by argosy run",
     "folder for the flight records that ranks write when an operation "
     "fails, for `argosy trace hang`"},
    {"ARGOSY_FS_CA",
     "the system's",
     "file of certificates (PEM) that file servers over HTTPS must have theirs "
     "from"},
    {"ARGOSY_FS_PART",
     "8 for S3, 32 for HDFS",
     "MiB that a request carries when a large file is written to a server; at "
     "least 5 for AWS"},
    {"ARGOSY_FS_STALL",
     "60 s",
     "how long a file server may be silent until a request is repeated"},
    {"ARGOSY_HANG_REPORT",
     "rank; set by argosy run",
     "who says that an operation waits too long: rank or launcher"},
    {"ARGOSY_HANG_WARNING",
     "60 s",
     "how long an operation may wait until somebody says who waits for whom; "
     "0: never"},
    {"ARGOSY_HOOKS_OFF",
     "none",
     "hooks into LibTorch that Argosy must not install, separated by commas: "
     "see torch-hooks.md"},
    {"ARGOSY_ISA",
     "highest of the machine",
     "limits the instruction set of the reduction kernels: baseline, avx2 or "
     "avx512"},
    {"ARGOSY_ITEM_WARNING",
     "5 s",
     "how long a rank waits in item() of a DTensor before it says for which "
     "ranks: 30, 500ms; 0: never"},
    {"ARGOSY_LOG",
     "warn",
     "lowest level that is logged: trace, debug, info, warn, error or off"},
    {"ARGOSY_SECRET",
     "none",
     "the job's secret, 64 hexadecimal digits; ARGOSY_SECRET_FILE keeps it out "
     "of the environment: see security.md"},
    {"ARGOSY_SECRET_FILE",
     "none; set by argosy run and spawn()",
     "file with the job's secret, the same for all its processes"},
    {"ARGOSY_SHARED_HEAP",
     "1",
     "0: large tensors of process ranks stay in private memory, so that "
     "collectives copy them once more"},
    {"ARGOSY_SPAWN",
     "set by spawn()",
     "tells a re-executed program which call of spawn() it is a rank of"},
    {"ARGOSY_STORE",
     "depends on the launcher",
     "URL of the store where the ranks meet: tcp://host:port, file:///path, "
     "etcd://host:port/prefix (etcds:// for https), c10d://host:port"},
    {"ARGOSY_TIMEOUT",
     "1800 s",
     "limit of every wait that has no other limit: 30, 500ms, 2m"},
    {"ARGOSY_TLS_CA",
     "none",
     "file with the authority that signs the certificates of all nodes, and "
     "etcd's"},
    {"ARGOSY_TLS_CERT",
     "none",
     "file with this node's certificate; switches mutual TLS on for the stores "
     "of the job"},
    {"ARGOSY_TLS_KEY", "none", "file with the key of ARGOSY_TLS_CERT"},
    {"ARGOSY_WORKER_RESTARTS",
     "none; set by argosy run --restart-policy worker",
     "how often the launcher has started this worker again"},
};

} // namespace

std::span<const EnvVariable> env_table() {
  return kTable;
}

} // namespace argosy
