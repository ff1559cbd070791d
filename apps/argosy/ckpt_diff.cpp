// `argosy ckpt diff`: do two checkpoints hold the same?

#include <iostream>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/inspect/diff.h"
#include "argosy/common/error.h"

namespace argosy::cli {

namespace {

using checkpoint::DiffDepth;
using checkpoint::DiffReport;
using checkpoint::TensorDiff;

struct DiffOptions {
  std::string a;
  std::string b;
  std::string key_a;
  std::string key_b;
  bool roots = false;
  bool values = false;
  bool json = false;
};

nlohmann::json json_of(const TensorDiff& diff) {
  nlohmann::json json{{"name", diff.name}};
  if (!diff.what.empty()) {
    json["what"] = diff.what;
    return json;
  }
  json["blocks"] = diff.blocks;
  if (diff.elements > 0) {
    json["elements"] = diff.elements;
    json["first"] = diff.first;
    json["largest_difference"] = nullptr;
    if (diff.largest) {
      json["largest_difference"] = *diff.largest;
    }
  }
  return json;
}

std::string text_of(const TensorDiff& diff) {
  if (!diff.what.empty()) {
    return diff.what;
  }
  const auto range_of = [](const auto& block) {
    return block.second - block.first == 1
        ? str(block.first)
        : str(block.first, " to ", block.second - 1);
  };
  std::string text = "other values in elements ";
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(kShown, diff.blocks.size()); ++i) {
    text += (i == 0 ? "" : ", ") + range_of(diff.blocks[i]);
  }
  if (diff.blocks.size() > kShown) {
    text += str(" and ", diff.blocks.size() - kShown, " more ranges");
  }
  if (diff.elements > 0) {
    text += str("; ", diff.elements, " differ, the first is ", diff.first);
    text += diff.largest ? str(", by at most ", *diff.largest)
                         : ", not all by a number";
  }
  return text;
}

void print(const DiffReport& report) {
  for (const TensorDiff& diff : report.differing) {
    std::cout << diff.name << ": " << text_of(diff) << "\n";
  }
  if (report.differing.empty()) {
    std::cout << "equal: " << report.equal << " tensors"
              << (report.by_root ? ", by their common root" : "") << "\n";
  } else {
    std::cout << "different: " << report.differing.size() << " tensors, "
              << report.equal << " are equal\n";
  }
}

int diff(const DiffOptions& options) {
  const auto a = checkpoint::open_tensors(options.a);
  const auto b = checkpoint::open_tensors(options.b);
  const auto cipher_a = cipher_of(options.key_a, a);
  const auto cipher_b = cipher_of(options.key_b, b);
  const DiffDepth depth = options.values ? DiffDepth::Values
      : options.roots                    ? DiffDepth::Roots
                                         : DiffDepth::Blocks;
  DiffReport report;
  {
    ProgressBar bar("compare");
    report = checkpoint::diff_checkpoints(
        a, b, depth, {cipher_a.get(), bar.callback()}, {cipher_b.get(), {}});
  }
  if (options.json) {
    auto list = nlohmann::json::array();
    for (const TensorDiff& tensor : report.differing) {
      list.push_back(json_of(tensor));
    }
    print_json(
        {{"equal", report.differing.empty()},
         {"by_root", report.by_root},
         {"equal_tensors", report.equal},
         {"read_bytes", report.bytes},
         {"differing", list}});
  } else {
    print(report);
  }
  return report.differing.empty() ? kCkptGood : kCkptBad;
}

} // namespace

void add_ckpt_diff(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "Compares the tensors of two checkpoints, whatever their layouts and "
      "formats: by root\nhashes, without reading values; then reads those "
      "tensors whose roots differ, and\nnames the blocks of elements. Exits "
      "with 0 if all are equal, with 1 if not. States\nof single ranks (random "
      "numbers, positions in data) are not compared.");
  command->add_option("A", options->a, "Checkpoint of any format")->required();
  command->add_option("B", options->b, "Another one")->required();
  auto* roots = command->add_flag(
      "--roots", options->roots, "Compare root hashes only: reads no values");
  command
      ->add_flag(
          "--values",
          options->values,
          "Compare bit by bit: how many elements differ, and by how much")
      ->excludes(roots);
  command->add_option("--key-a", options->key_a, "Key file of A, if encrypted");
  command->add_option("--key-b", options->key_b, "Key file of B, if encrypted");
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return diff(*options); }; });
}

} // namespace argosy::cli
