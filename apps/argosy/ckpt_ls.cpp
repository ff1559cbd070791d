// `argosy ckpt ls`: which checkpoints are there?

#include <iomanip>
#include <iostream>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/folder_list.h"
#include "argosy/common/error.h"

namespace argosy::cli {

namespace {

using checkpoint::CheckpointEntry;

struct LsOptions {
  std::string folder;
  bool json = false;
};

std::string state_of(const CheckpointEntry& entry) {
  if (!entry.committed) {
    return "not committed";
  }
  return entry.problem.empty() ? entry.latest ? "latest" : "committed"
                               : "damaged: " + entry.problem;
}

nlohmann::json json_of(const CheckpointEntry& entry) {
  nlohmann::json json{
      {"name", entry.name},
      {"step", entry.step},
      {"bytes", entry.bytes},
      {"created", entry.created},
      {"committed", entry.committed},
      {"latest", entry.latest},
      {"root", nullptr}};
  if (entry.root) {
    json["root"] = checkpoint::to_hex(*entry.root);
  }
  if (!entry.problem.empty()) {
    json["problem"] = entry.problem;
  }
  return json;
}

void print_table(const std::vector<CheckpointEntry>& entries) {
  std::size_t width = 4;
  for (const CheckpointEntry& entry : entries) {
    width = std::max(width, entry.name.size());
  }
  const auto row = [width](
                       const std::string& name,
                       const std::string& step,
                       const std::string& bytes,
                       const std::string& created,
                       const std::string& root,
                       const std::string& state) {
    std::cout << std::left << std::setw(static_cast<int>(width)) << name
              << std::right << std::setw(10) << step << std::setw(12) << bytes
              << "  " << std::left << std::setw(21) << created << std::setw(33)
              << root << state << "\n";
  };
  row("NAME", "STEP", "SIZE", "CREATED", "ROOT", "STATE");
  for (const CheckpointEntry& entry : entries) {
    row(entry.name,
        std::to_string(entry.step),
        bytes_text(entry.bytes),
        entry.created.empty() ? "-" : entry.created,
        entry.root ? checkpoint::to_hex(*entry.root) : "-",
        state_of(entry));
  }
}

int ls(const LsOptions& options) {
  const fs::Location folder = fs::open(options.folder);
  ARGOSY_CHECK(
      checkpoint::exists(folder),
      "[ckpt.ls] there is no folder {}",
      options.folder);
  const auto entries = checkpoint::list_checkpoints(folder);
  if (options.json) {
    auto list = nlohmann::json::array();
    for (const CheckpointEntry& entry : entries) {
      list.push_back(json_of(entry));
    }
    print_json({{"checkpoints", list}});
  } else if (entries.empty()) {
    std::cout << "No checkpoints in " << options.folder << "\n";
  } else {
    print_table(entries);
  }
  for (const CheckpointEntry& entry : entries) {
    if (!entry.problem.empty()) {
      return kCkptBad;
    }
  }
  return kCkptGood;
}

} // namespace

void add_ckpt_ls(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* command = app.add_subcommand(
      "ls",
      "Lists the checkpoints of a folder: step, size, time, root hash, and "
      "whether it is\ncommitted. Exits with 1 if a committed one lacks files.");
  command->add_option("DIR", options->folder, "Folder of checkpoints")
      ->required();
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return ls(*options); }; });
}

} // namespace argosy::cli
