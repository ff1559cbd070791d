// `argosy trace hang`: finds the rank that the others wait for.

#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/argosy/commands.h"
#include "argosy/comm/flight/hang.h"
#include "argosy/comm/flight/live_jobs.h"
#include "argosy/comm/flight/record_files.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::cli {

namespace {

namespace flight = comm::flight;

struct HangOptions {
  std::vector<std::filesystem::path> folders;
  bool fresh = false;
  bool json = false;
};

void add_hang(CLI::App& app, HangOptions& options) {
  CLI::App* hang = app.add_subcommand(
      "hang",
      "Finds the rank that the others wait for, from the flight records that "
      "ranks write\nto a folder when an operation fails (docs/tools.md).\n"
      "Exits with 0 if nothing hangs or a rank is named, with 1 if something "
      "hangs but no\nrank can be named, with 2 if there are no records.");
  hang->add_option(
      "DIR",
      options.folders,
      "Folder with flight_rank_*.json (ARGOSY_FLIGHT_DIR), or the folder of a "
      "run\nof `argosy run`; name several if the hosts share no folder. "
      "Without one, lists\nthe jobs that run on this host, each with its "
      "command");
  hang->add_flag(
      "--fresh",
      options.fresh,
      "First ask all ranks that still run on this host to write their records");
  hang->add_flag("--json", options.json, "Print JSON");
}

int list_jobs() {
  const std::vector<flight::LiveJob> jobs = flight::live_jobs();
  ARGOSY_CHECK(
      !jobs.empty(),
      "[trace.hang] no job runs on this host whose ranks write flight records "
      "(ARGOSY_FLIGHT_DIR; argosy run sets it). For a job that has ended, name "
      "its folder");
  std::cout << jobs;
  return 0;
}

int hang(const HangOptions& options) {
  if (options.folders.empty()) {
    return list_jobs();
  }
  if (options.fresh) {
    flight::renew_records(
        options.folders, Deadline::after(std::chrono::seconds(5)));
  }
  const auto records = flight::read_records(options.folders);
  std::vector<std::string> names;
  for (const auto& folder : options.folders) {
    names.push_back(folder.string());
  }
  ARGOSY_CHECK(
      !records.empty(),
      "[trace.hang] no flight_rank_*.json in {}: no operation failed, or "
      "ARGOSY_FLIGHT_DIR was another folder",
      join(names, ", "));
  const flight::HangReport report = flight::find_hang(records);
  if (options.json) {
    std::cout << flight::to_json(report);
  } else {
    std::cout << report;
  }
  return report.stalls.empty() || !report.culprits.empty() ? 0 : 1;
}

} // namespace

int trace(const std::vector<std::string>& arguments) {
  CLI::App app("Analyses what ranks recorded.", "argosy trace");
  app.require_subcommand(1);
  HangOptions options;
  add_hang(app, options);
  try {
    // CLI11 expects the words in reverse order.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return hang(options);
}

} // namespace argosy::cli
