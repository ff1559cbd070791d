#include "bench/comm_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "argosy/common/error.h"
#include "argosy/world/record.h"

namespace argosy::bench {

namespace {

// Debian's name for Open MPI's mpirun; else mpirun, if it is Open MPI's.
std::string find_open_mpi() {
  if (std::system("mpirun.openmpi --version >/dev/null 2>&1") == 0) {
    return "mpirun.openmpi";
  }
  const bool plain =
      std::system("mpirun --version 2>/dev/null | grep -q 'Open MPI'") == 0;
  return plain ? "mpirun" : "";
}

void add_flags(CLI::App& app, CommFlags& flags) {
  app.add_flag("--quick", flags.common.quick, "Finish within 40 s");
  app.add_flag("--json", flags.common.json, "Print JSON");
  app.add_option("--ranks", flags.ranks, "Numbers of ranks, as in 2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--ops", flags.ops, "Collectives, as in all_reduce,broadcast")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"all_reduce",
           "broadcast",
           "all_gather",
           "reduce_scatter",
           "all_to_all"}));
  app.add_option("--sizes", flags.sizes, "Bytes per buffer, as in 1K,64K,64M")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--argosy", flags.argosy, "The argosy command to use");
}

} // namespace

int with_comm_flags(
    int argc, char** argv, const std::function<void(const CommFlags&)>& body) {
  CommFlags flags;
  flags.argosy = ARGOSY_COMMAND;
  CLI::App app(
      "Times collectives of ranks on this host, compared with Gloo and Open "
      "MPI, and the\nshare of the memory bandwidth that they reach.",
      "argosy bench comm");
  add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  flags.mpirun = find_open_mpi();
  if (flags.mpirun.empty()) {
    std::cerr << "argosy bench: Open MPI's mpirun is not installed, so its "
                 "column is left out\n";
  }
  return record([&] { body(flags); });
}

std::string beside_this(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name)
      .string();
}

} // namespace argosy::bench
