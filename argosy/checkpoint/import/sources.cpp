#include "argosy/checkpoint/import/sources.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/import/pickle_value.h"
#include "argosy/checkpoint/import/zip_reader.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

constexpr std::chrono::minutes kAskLimit{2};

bool has_suffix(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
      text.substr(text.size() - suffix.size()) == suffix;
}

bool is_row_major(const Shape& shape, const Shape& strides) {
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 0) {
      return true;
    }
    if (shape[d] != 1 && strides[d] != expected) {
      return false;
    }
    expected *= shape[d];
  }
  return true;
}

bool has_safetensors(const fs::Location& folder) {
  for (const fs::Entry& entry :
       folder.fs->list(folder.path, Deadline::after(kAskLimit))) {
    if (has_suffix(entry.name, ".safetensors")) {
      return true;
    }
  }
  return false;
}

TensorSet open_folder(const fs::Location& folder) {
  if (exists(below(folder, kManifestName))) {
    return open_argosy(folder);
  }
  if (exists(below(folder, kDcpName))) {
    return open_dcp(folder);
  }
  // As load() does.
  if (const auto newest = Folder(folder).newest(Deadline::after(kAskLimit))) {
    return open_argosy(below(folder, newest->name));
  }
  if (exists(below(folder, kIndexName)) || has_safetensors(folder)) {
    return open_safetensors(folder);
  }
  throw CheckpointError(
      str("[checkpoint.open] ",
          url_of(folder),
          " has neither ",
          kManifestName,
          " (a committed checkpoint) nor a folder ",
          folder_name(0),
          " with one, ",
          kDcpName,
          " or *.safetensors"));
}

// A safetensors file begins with the length of its header, and "{".
bool is_safetensors(const ByteSource& file) {
  std::string first(9, '\0');
  if (file.size() < first.size()) {
    return false;
  }
  file.read(0, std::as_writable_bytes(std::span(first)));
  return first[8] == '{';
}

} // namespace

fs::Location below(const fs::Location& folder, const std::string& name) {
  return {folder.fs, fs::join_path(folder.path, name)};
}

bool exists(const fs::Location& file) {
  return file.fs->stat(file.path, Deadline::after(kAskLimit)).has_value();
}

std::string url_of(const fs::Location& location) {
  return location.fs->url(location.path);
}

void check_relative(const std::string& path, const std::string& where) {
  bool inside = !path.empty() && path[0] != '/';
  for (const std::string& part : split(path, '/')) {
    inside = inside && part != "..";
  }
  if (!inside) {
    throw CheckpointError(
        str("[checkpoint.open] ",
            where,
            " names the file \"",
            path,
            "\", expected one below its folder"));
  }
}

SourcePiece piece_of_view(
    const PickleTensor& tensor, Source storage, Shape offset) {
  const bool dense = is_row_major(tensor.shape, tensor.strides);
  return {
      .box = {std::move(offset), tensor.shape},
      .source = std::move(storage),
      .offset = static_cast<std::uint64_t>(tensor.offset) *
          element_bytes(tensor.dtype),
      .strides = dense ? Shape() : tensor.strides,
      .file = 0,
      .hashes = {},
      .tags = {}};
}

TensorSet open_tensors(const std::string& url) {
  const fs::Location location = fs::open(url);
  const auto entry =
      location.fs->stat(location.path, Deadline::after(kAskLimit));
  if (!entry) {
    throw CheckpointError(
        str("[checkpoint.open] ", url_of(location), " does not exist"));
  }
  if (entry->is_dir) {
    return open_folder(location);
  }
  const Source file = open_source(location);
  if (!ZipReader::is_zip(*file) && is_safetensors(*file)) {
    return open_safetensors(location);
  }
  return open_torch(location);
}

} // namespace argosy::checkpoint
