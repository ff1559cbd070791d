#include "argosy/common/env_table.h"

namespace argosy {

namespace {

constexpr EnvVariable kTable[] = {
    {"ARGOSY_ADOPT",
     "first that applies",
     "the launch environment to adopt, by the name that `argosy env` prints; "
     "settles two that disagree"},
    {"ARGOSY_EXCHANGE",
     "by launch environment",
     "how ranks under an MPI launcher learn rank 0's address when nothing "
     "names one: file, pmi or pmix"},
    {"ARGOSY_FLIGHT_DIR",
     "none; set by argosy run",
     "folder where ranks leave their flight records when an operation fails, "
     "for `argosy trace hang`"},
    {"ARGOSY_HOOKS_OFF",
     "none",
     "hooks into LibTorch that Argosy must not install, with commas between: "
     "see torch-hooks.md"},
    {"ARGOSY_ISA",
     "highest of the machine",
     "lowers the instruction set of the reduction kernels: baseline, avx2 or "
     "avx512"},
    {"ARGOSY_LOG",
     "warn",
     "least level that is logged: trace, debug, info, warn, error or off"},
    {"ARGOSY_SHARED_HEAP",
     "1",
     "0: large tensors of process ranks stay in private memory, and their "
     "collectives copy once more"},
    {"ARGOSY_SPAWN",
     "set by spawn()",
     "tells a re-executed program which call of spawn() it is a rank of"},
    {"ARGOSY_STORE",
     "by launch environment",
     "URL of the store where the ranks meet: tcp://host:port, file:///path, "
     "etcd://host:port/prefix"},
    {"ARGOSY_TIMEOUT",
     "1800 s",
     "limit of every wait that is given no other: 30, 500ms, 2m"},
};

} // namespace

std::span<const EnvVariable> env_table() {
  return kTable;
}

} // namespace argosy
