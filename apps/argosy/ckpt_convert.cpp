// `argosy ckpt convert`: the same tensors in another format or layout.

#include <iostream>
#include <optional>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/error.h"

namespace argosy::cli {

namespace {

using checkpoint::NameRules;
using checkpoint::TensorSet;

struct ConvertOptions {
  std::string source;
  std::string target;
  std::string to;
  std::string rules;
  std::string max_shard = "5GB";
  int ranks = 1;
  std::string dims;
  std::optional<std::int64_t> step;
  bool all = false;
  std::string key;
  std::string encrypt;
  bool json = false;
};

bool ends_in(const std::string& text, std::string_view end) {
  return text.size() > end.size() &&
      text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The format of the target: as asked for, or by its name.
std::string format_of(const ConvertOptions& options) {
  if (!options.to.empty()) {
    return options.to;
  }
  if (ends_in(options.target, ".safetensors")) {
    return "safetensors";
  }
  for (const char* end : {".pt", ".pth", ".bin"}) {
    if (ends_in(options.target, end)) {
      return "pt";
    }
  }
  return "argosy";
}

// Options that mean nothing for a format are mistakes.
void check_options(const ConvertOptions& options, const std::string& format) {
  const bool argosy = format == "argosy";
  ARGOSY_CHECK(
      argosy ||
          (options.ranks == 1 && options.dims.empty() &&
           options.encrypt.empty()),
      "[ckpt.convert] --split, --dims and --encrypt are for checkpoints of "
      "Argosy, and the target is {}",
      format);
  ARGOSY_CHECK(
      !(argosy && options.all),
      "[ckpt.convert] --all is for exports: checkpoints of Argosy have all "
      "components anyway");
}

nlohmann::json write_argosy(
    const ConvertOptions& options,
    const TensorSet& set,
    const fs::Location& target,
    const checkpoint::CopyContext& context) {
  std::unique_ptr<checkpoint::Cipher> cipher;
  if (!options.encrypt.empty()) {
    cipher = std::make_unique<checkpoint::Cipher>(
        checkpoint::Key::of_file(options.encrypt));
  }
  const checkpoint::SplitOptions split{
      .ranks = options.ranks,
      .dims =
          options.dims.empty() ? NameRules() : NameRules::of_file(options.dims),
      .cipher = cipher.get()};
  const auto manifest = checkpoint::write_argosy(set, target, split, context);
  return {
      {"files", manifest.files.size()},
      {"root", manifest.root ? checkpoint::to_hex(*manifest.root) : ""}};
}

nlohmann::json write(
    const ConvertOptions& options,
    const TensorSet& set,
    const std::string& format,
    const checkpoint::CopyContext& context) {
  const fs::Location target = fs::open(options.target);
  if (format == "argosy") {
    return write_argosy(options, set, target, context);
  }
  if (format == "hf") {
    checkpoint::write_hugging_face(
        set, target, parse_bytes(options.max_shard), context);
  } else if (format == "safetensors") {
    checkpoint::write_safetensors(set, target, context);
  } else if (format == "dcp") {
    checkpoint::write_dcp(set, target, context);
  } else {
    checkpoint::write_torch(set, target, context);
  }
  return nlohmann::json::object();
}

int convert(const ConvertOptions& options) {
  const std::string format = format_of(options);
  check_options(options, format);
  TensorSet set = checkpoint::open_tensors(options.source);
  const auto cipher = cipher_of(options.key, set);
  if (!options.rules.empty()) {
    set =
        checkpoint::renamed(std::move(set), NameRules::of_file(options.rules));
  }
  if (format != "argosy") {
    set = checkpoint::for_export(std::move(set), options.all);
  }
  set.step = options.step.value_or(set.step);
  nlohmann::json result;
  {
    ProgressBar bar("convert");
    result = write(options, set, format, {cipher.get(), bar.callback()});
  }
  if (options.json) {
    result["source"] = set.url;
    result["target"] = options.target;
    result["format"] = format;
    result["tensors"] = set.tensors.size();
    result["bytes"] = set.tensor_bytes();
    print_json(result);
  } else {
    std::cout << options.target << ": " << set.tensors.size() << " tensors, "
              << bytes_text(set.tensor_bytes()) << ", " << format;
    if (result.contains("root")) {
      std::cout << ", root " << result["root"].get<std::string>();
    }
    std::cout << "\n";
  }
  return kCkptGood;
}

void add_layout(CLI::App& command, ConvertOptions& options) {
  command.add_option(
      "--max-shard-size",
      options.max_shard,
      "hf: largest size of a file, as 500MB or 5GiB [5GB]");
  command
      .add_option(
          "--split",
          options.ranks,
          "argosy: number of ranks to divide the tensors over [1: one file]")
      ->check(CLI::Range(1, 100'000));
  command.add_option(
      "--dims",
      options.dims,
      "argosy: file of lines REGEX -> DIM, the dim along which a tensor is "
      "cut;\ntensors without one stay whole, on any rank");
  command.add_option(
      "--step",
      options.step,
      "Step of the new checkpoint [that of the source]");
  command.add_option("--key", options.key, kKeyHelp);
  command.add_option(
      "--encrypt",
      options.encrypt,
      "argosy: encrypt with the key in this file");
}

} // namespace

void add_ckpt_convert(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Writes a checkpoint in another format or layout: merges, splits, "
      "imports, exports.\nReads checkpoints of Argosy, safetensors (files, "
      "Hugging Face folders), files of\ntorch.save and torch::save, and "
      "folders of torch.distributed.checkpoint. Memory does\nnot depend on the "
      "size; no code of pickles is run. The target must not exist, and\nexists "
      "only when it is complete.");
  command->add_option("SOURCE", options->source, "What to read")->required();
  command->add_option("TARGET", options->target, "What to write")->required();
  command
      ->add_option(
          "--to",
          options->to,
          "argosy, hf (folder), safetensors (file), pt (file), dcp (folder) "
          "[by the name\nof TARGET: *.safetensors, *.pt, else argosy]")
      ->check(CLI::IsMember({"argosy", "hf", "safetensors", "pt", "dcp"}));
  command->add_option(
      "--rules",
      options->rules,
      "File of lines REGEX -> REPLACEMENT, or drop REGEX: changes the names "
      "that\n`argosy ckpt show SOURCE` prints; the first rule that matches "
      "counts");
  command->add_flag(
      "--all",
      options->all,
      "hf, safetensors, pt, dcp: export all components, not only model/");
  add_layout(*command, *options);
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return convert(*options); }; });
}

} // namespace argosy::cli
