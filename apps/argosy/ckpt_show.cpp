// `argosy ckpt show`: what is in a checkpoint?

#include <iomanip>
#include <iostream>

#include "apps/argosy/ckpt.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/error.h"
#include "argosy/common/pattern.h"

namespace argosy::cli {

namespace {

using checkpoint::SourcePiece;
using checkpoint::SourceTensor;
using checkpoint::TensorSet;

struct ShowOptions {
  std::string path;
  std::string filter;
  bool pieces = false;
  bool values = false;
  bool json = false;
};

std::vector<const SourceTensor*> chosen(
    const TensorSet& set, const std::string& filter) {
  std::vector<const SourceTensor*> tensors;
  const Pattern pattern(filter, "[ckpt.show]");
  for (const SourceTensor& tensor : set.tensors) {
    if (pattern.is_found_in(tensor.info.name)) {
      tensors.push_back(&tensor);
    }
  }
  return tensors;
}

std::string file_of(const SourcePiece& piece) {
  return fs::base_name(piece.source->name());
}

nlohmann::json json_of_piece(const SourcePiece& piece) {
  nlohmann::json json{
      {"offset", piece.box.offset},
      {"size", piece.box.size},
      {"file", file_of(piece)},
      {"byte", piece.source->base() + piece.offset}};
  if (!piece.strides.empty()) {
    json["strides"] = piece.strides;
  }
  return json;
}

nlohmann::json json_of_tensor(const SourceTensor& tensor) {
  nlohmann::json json{
      {"name", tensor.info.name},
      {"dtype", checkpoint::to_string(tensor.info.dtype)},
      {"shape", tensor.info.shape},
      {"bytes", checkpoint::bytes_of(tensor.info)},
      {"root", nullptr},
      {"pieces", nlohmann::json::array()}};
  if (tensor.root) {
    json["root"] = checkpoint::to_hex(*tensor.root);
  }
  for (const SourcePiece& piece : tensor.pieces) {
    json["pieces"].push_back(json_of_piece(piece));
  }
  return json;
}

void show_json(
    const TensorSet& set, const std::vector<const SourceTensor*>& tensors) {
  nlohmann::json json{
      {"path", set.url},
      {"format", checkpoint::to_string(set.format)},
      {"step", set.step},
      {"created", set.created},
      {"bytes", set.tensor_bytes()},
      {"encrypted", set.encryption.has_value()},
      {"root", nullptr},
      {"values", set.values},
      {"layout", set.layout},
      {"tensors", nlohmann::json::array()}};
  if (set.root) {
    json["root"] = checkpoint::to_hex(*set.root);
  }
  for (const SourceTensor* tensor : tensors) {
    json["tensors"].push_back(json_of_tensor(*tensor));
  }
  print_json(json);
}

void show_pieces(const SourceTensor& tensor) {
  for (const SourcePiece& piece : tensor.pieces) {
    std::cout << "    " << piece.box << " in " << file_of(piece)
              << " from byte " << piece.source->base() + piece.offset << "\n";
  }
}

void show_head(const TensorSet& set) {
  std::cout << set.url << ": " << checkpoint::to_string(set.format) << ", step "
            << set.step << ", " << set.tensors.size() << " tensors, "
            << bytes_text(set.tensor_bytes())
            << (set.encryption ? ", encrypted" : "") << "\n";
  if (!set.created.empty()) {
    std::cout << "created " << set.created << "\n";
  }
  if (set.root) {
    std::cout << "root " << checkpoint::to_hex(*set.root) << "\n";
  }
  if (!set.layout.empty()) {
    std::cout << "layout " << set.layout.dump() << "\n";
  }
}

// Without texts that say nothing to a reader, as options that were serialized.
nlohmann::json shortened(nlohmann::json values) {
  constexpr std::size_t kLong = 80;
  for (auto& value : values) {
    if (value.is_structured()) {
      value = shortened(std::move(value));
    } else if (value.is_string()) {
      const auto size = value.get_ref<const std::string&>().size();
      if (size > kLong) {
        value = str("... (", size, " characters)");
      }
    }
  }
  return values;
}

void show_text(
    const ShowOptions& options,
    const TensorSet& set,
    const std::vector<const SourceTensor*>& tensors) {
  show_head(set);
  if (!set.values.empty()) {
    constexpr std::size_t kShort = 400;
    const std::string values =
        options.values ? set.values.dump(2) : shortened(set.values).dump();
    std::cout << "values "
              << (options.values || values.size() <= kShort
                      ? values
                      : values.substr(0, kShort) + " ... (--values shows all)")
              << "\n";
  }
  std::size_t width = 0;
  for (const SourceTensor* tensor : tensors) {
    width = std::max(width, tensor->info.name.size());
  }
  for (const SourceTensor* tensor : tensors) {
    std::cout << "  " << std::left << std::setw(static_cast<int>(width))
              << tensor->info.name << "  " << std::setw(7)
              << checkpoint::to_string(tensor->info.dtype) << std::setw(16)
              << checkpoint::shape_text(tensor->info.shape) << std::right
              << std::setw(10) << bytes_text(checkpoint::bytes_of(tensor->info))
              << "  " << tensor->pieces.size()
              << (tensor->pieces.size() == 1 ? " piece" : " pieces") << "\n";
    if (options.pieces) {
      show_pieces(*tensor);
    }
  }
}

int show(const ShowOptions& options) {
  const TensorSet set = checkpoint::open_tensors(options.path);
  const auto tensors = chosen(set, options.filter);
  if (options.json) {
    show_json(set, tensors);
  } else {
    show_text(options, set, tensors);
  }
  return kCkptGood;
}

} // namespace

void add_ckpt_show(CLI::App& app, CkptRun& run) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand(
      "show",
      "Shows the tensors of a checkpoint, their sizes and pieces, and the "
      "training values.\nReads all formats that `convert` does.");
  command
      ->add_option(
          "PATH",
          options->path,
          "Checkpoint, or folder of checkpoints (its newest), or a file or "
          "folder of\nanother format")
      ->required();
  command->add_option(
      "--filter",
      options->filter,
      "Only tensors whose name matches this REGEX");
  command->add_flag(
      "--pieces", options->pieces, "Where the pieces of each tensor are");
  command->add_flag(
      "--values", options->values, "All training values, however many");
  command->add_flag("--json", options->json, kJsonHelp);
  command->callback(
      [options, &run] { run = [options] { return show(*options); }; });
}

} // namespace argosy::cli
