// `argosy ckpt verify`: is a checkpoint as it was written?

#include <iostream>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/folder_list.h"
#include "argosy/checkpoint/inspect/verify.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/common/error.h"

namespace argosy::cli {

namespace {

using checkpoint::Damage;
using checkpoint::VerifyReport;

struct VerifyOptions {
  std::string folder;
  std::string key;
  bool all = false;
  bool json = false;
};

// The checkpoints that were asked for: one, the newest, or all.
std::vector<fs::Location> checkpoints_of(const VerifyOptions& options) {
  const fs::Location folder = fs::open(options.folder);
  if (checkpoint::exists(
          checkpoint::below(folder, checkpoint::kManifestName))) {
    return {folder};
  }
  std::vector<fs::Location> found;
  for (const auto& entry : checkpoint::list_checkpoints(folder)) {
    if (options.all ? entry.committed : entry.latest) {
      found.push_back(checkpoint::below(folder, entry.name));
    }
  }
  ARGOSY_CHECK(
      !found.empty(),
      "[ckpt.verify] no committed checkpoint in {}",
      options.folder);
  return found;
}

// The whole checkpoint cannot be read: one damage.
VerifyReport unreadable(const Error& error) {
  VerifyReport report;
  report.damages.push_back({checkpoint::kManifestName, "", 0, 0, error.what()});
  return report;
}

VerifyReport verify_one(
    const fs::Location& folder, const std::string& key, ProgressBar& bar) {
  std::unique_ptr<checkpoint::Cipher> cipher;
  if (!key.empty()) {
    cipher = cipher_of(key, checkpoint::open_argosy(folder));
  }
  try {
    return checkpoint::verify_checkpoint(folder, cipher.get(), bar.callback());
  } catch (const CheckpointError& error) {
    return unreadable(error);
  }
}

nlohmann::json json_of(const std::string& url, const VerifyReport& report) {
  nlohmann::json json{
      {"path", url},
      {"step", report.step},
      {"tensors", report.tensors},
      {"pieces", report.pieces},
      {"bytes", report.bytes},
      {"roots", report.roots},
      {"good", report.damages.empty()},
      {"damages", nlohmann::json::array()}};
  for (const Damage& damage : report.damages) {
    json["damages"].push_back(
        {{"file", damage.file},
         {"tensor", damage.tensor},
         {"byte", damage.byte},
         {"bytes", damage.bytes},
         {"what", damage.what}});
  }
  return json;
}

void print(const std::string& url, const VerifyReport& report) {
  for (const Damage& damage : report.damages) {
    std::cout << url << ": " << damage.file;
    if (!damage.tensor.empty()) {
      std::cout << ", tensor " << damage.tensor;
    }
    if (damage.byte > 0 || damage.bytes > 0) {
      std::cout << ", from byte " << damage.byte;
    }
    if (damage.bytes > 0) {
      std::cout << ", " << damage.bytes << " bytes";
    }
    std::cout << ": " << damage.what << "\n";
  }
  std::cout << url << ": "
            << (report.damages.empty()
                    ? std::string("good")
                    : "DAMAGED in " + counted(report.damages.size(), "place"))
            << ", " << counted(report.tensors, "tensor") << ", "
            << counted(report.pieces, "piece") << ", "
            << bytes_text(report.bytes) << ", " << counted(report.roots, "root")
            << (report.roots_unreadable ? " (of tensors: needs --key)" : "")
            << "\n";
}

int verify(const VerifyOptions& options) {
  bool good = true;
  auto list = nlohmann::json::array();
  for (const fs::Location& folder : checkpoints_of(options)) {
    VerifyReport report;
    {
      ProgressBar bar("verify");
      report = verify_one(folder, options.key, bar);
    }
    good = good && report.damages.empty();
    if (options.json) {
      list.push_back(json_of(checkpoint::url_of(folder), report));
    } else {
      print(checkpoint::url_of(folder), report);
    }
  }
  if (options.json) {
    print_json({{"good", good}, {"checkpoints", list}});
  }
  return good ? kCkptGood : kCkptBad;
}

} // namespace

void add_ckpt_verify(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify",
      "Reads a checkpoint and compares all chunks with their hashes, tensors "
      "with their\nroots, and headers with the manifest. Names file, tensor "
      "and byte of all damage.\nExits with 1 if there is some.");
  command
      ->add_option(
          "DIR",
          options->folder,
          "Checkpoint, or folder of checkpoints (its newest)")
      ->required();
  command->add_flag(
      "--all", options->all, "All committed checkpoints of the folder");
  command->add_option("--key", options->key, kKeyHelp);
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return verify(*options); }; });
}

} // namespace argosy::cli
