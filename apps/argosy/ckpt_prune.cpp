// `argosy ckpt prune`: removes checkpoints that no policy keeps.

#include <algorithm>
#include <chrono>
#include <iostream>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/prune_plan.h"
#include "argosy/checkpoint/inspect/verify.h"
#include "argosy/common/error.h"

namespace argosy::cli {

namespace {

using checkpoint::PruneDecision;

struct PruneOptions {
  std::string folder;
  checkpoint::PrunePolicy policy;
  bool highest = false;
  bool dry_run = false;
  bool json = false;
};

// Why the contents of a checkpoint are not as they were written; empty if they
// are.
std::string damage_of(const fs::Location& folder, ProgressBar& bar) {
  try {
    const auto report =
        checkpoint::verify_checkpoint(folder, nullptr, bar.callback());
    return report.damages.empty()
        ? ""
        : report.damages[0].file + ": " + report.damages[0].what;
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

// The list says which checkpoints look good. What the others are removed for
// must be good: reads it, from the newest on, until one has all its bytes.
void verify_newest(
    const fs::Location& folder,
    std::vector<checkpoint::CheckpointEntry>& entries) {
  ProgressBar bar("verify");
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!entry->good()) {
      continue;
    }
    entry->problem = damage_of(checkpoint::below(folder, entry->name), bar);
    if (entry->good()) {
      return;
    }
  }
}

int prune(PruneOptions options) {
  options.policy.keep.lower_is_better = !options.highest;
  if (!options.policy.keep.metric.empty()) {
    options.policy.keep.best = std::max(options.policy.keep.best, 1);
  }
  const fs::Location folder = fs::open(options.folder);
  ARGOSY_CHECK(
      checkpoint::exists(folder),
      "[ckpt.prune] there is no folder {}",
      options.folder);
  ARGOSY_CHECK(
      !checkpoint::exists(checkpoint::below(folder, checkpoint::kManifestName)),
      "[ckpt.prune] {} is a checkpoint, expected a folder of checkpoints",
      options.folder);
  auto entries = checkpoint::list_checkpoints(folder);
  verify_newest(folder, entries);
  const auto decisions = checkpoint::plan_prune(entries, options.policy);
  std::uint64_t freed = 0;
  auto list = nlohmann::json::array();
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const PruneDecision& decision = decisions[i];
    if (!decision.keep) {
      freed += entries[i].bytes;
      if (!options.dry_run) {
        checkpoint::Folder(folder).remove(
            decision.name, Deadline::after(std::chrono::minutes(10)));
      }
    }
    list.push_back(
        {{"name", decision.name},
         {"step", entries[i].step},
         {"keep", decision.keep},
         {"reason", decision.reason}});
    if (!options.json) {
      std::cout << decision << "\n";
    }
  }
  if (options.json) {
    print_json(
        {{"dry_run", options.dry_run},
         {"freed_bytes", freed},
         {"checkpoints", list}});
  } else {
    std::cout << (options.dry_run ? "would free " : "freed ")
              << bytes_text(freed) << "\n";
  }
  return kCkptGood;
}

} // namespace

void add_ckpt_prune(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* command = app.add_subcommand(
      "prune",
      "Removes the checkpoints of a folder that no policy keeps. What stays "
      "always: the\nnewest good one, which it reads and verifies, the one that "
      "`latest` names, damaged ones,\nand uncommitted ones that may still be "
      "written.");
  command->add_option("DIR", options->folder, "Folder of checkpoints")
      ->required();
  command->add_option("--last", options->policy.keep.last, "Keep the newest N");
  command->add_option(
      "--every",
      options->policy.keep.every,
      "Keep those whose step is a multiple of N");
  command->add_option(
      "--best-by",
      options->policy.keep.metric,
      "Keep the best by this training value, as loss or metrics.accuracy");
  command->add_option(
      "--best", options->policy.keep.best, "How many of the best to keep [1]");
  command->add_flag("--highest", options->highest, "The highest is the best");
  command->add_flag(
      "--uncommitted",
      options->policy.uncommitted,
      "Remove uncommitted ones that are older than the newest good one");
  command->add_flag(
      "--dry-run", options->dry_run, "Only say what would be removed");
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return prune(*options); }; });
}

} // namespace argosy::cli
