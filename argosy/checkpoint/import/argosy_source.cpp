#include <utility>

#include "argosy/checkpoint/import/sources.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostManifest = std::uint64_t{4} << 30;

std::vector<Source> open_files(
    const fs::Location& folder, const Manifest& manifest) {
  std::vector<Source> files;
  for (const FileRecord& record : manifest.files) {
    files.push_back(open_source(below(folder, record.path)));
    if (files.back()->size() != record.bytes) {
      throw CheckpointError(
          str("[checkpoint.open] ",
              files.back()->name(),
              " has ",
              files.back()->size(),
              " bytes, but the manifest says ",
              record.bytes,
              "; it was truncated or replaced"));
    }
  }
  return files;
}

} // namespace

TensorSet open_argosy(const fs::Location& folder) {
  const Source text = open_source(below(folder, kManifestName));
  const Manifest manifest =
      parse_manifest(text->read_all(kMostManifest), text->name());
  const std::vector<Source> files = open_files(folder, manifest);
  TensorSet set{.format = Format::Argosy, .url = url_of(folder)};
  for (const TensorRecord& record : manifest.tensors) {
    SourceTensor tensor{.info = record.info, .pieces = {}, .root = record.root};
    for (const PieceRecord& piece : record.pieces) {
      tensor.pieces.push_back(
          {.box = piece.box,
           .source = files.at(piece.file),
           .offset = piece.offset,
           .strides = {},
           .file = piece.file,
           .hashes = piece.hashes,
           .tags = piece.tags});
    }
    set.tensors.push_back(std::move(tensor));
  }
  set.step = manifest.step;
  set.created = manifest.created;
  set.values = manifest.values;
  set.layout = manifest.layout;
  set.root = manifest.root;
  set.encryption = manifest.encryption;
  sort_tensors(set);
  return set;
}

} // namespace argosy::checkpoint
