#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/import/sources.h"
#include "argosy/checkpoint/safetensors.h"
#include "argosy/common/error.h"
#include "argosy/common/json.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostHeader = 100'000'100;
constexpr const char* kShardingKey = "DCP_SHARDING_INFO";
constexpr const char* kWholeKey = "argosy.whole_shapes";

[[noreturn]] void refuse_metadata(
    const std::string& where, const std::string& what) {
  throw CheckpointError(
      str("[checkpoint.open] ",
          where,
          ": the metadata of its pieces cannot be read: ",
          what));
}

SafetensorsHeader read_header(const Source& file) {
  std::string first(8, '\0');
  file->read(0, std::as_writable_bytes(std::span(first)));
  const std::uint64_t bytes =
      header_size(std::as_bytes(std::span(first)), file->size(), file->name());
  return parse_header(
      slice(file, 0, bytes)->read_all(kMostHeader), file->size(), file->name());
}

// What files of pieces say about them.
struct PiecePlaces {
  std::map<std::string, Shape> offsets; // where they begin, by name
  std::map<std::string, Shape> wholes;  // shapes, in Argosy's own files
};

PiecePlaces read_places(
    const SafetensorsHeader& header, const std::string& where) {
  PiecePlaces places;
  const auto json_at = [&](const char* key) {
    const auto found = header.metadata.find(key);
    return found == header.metadata.end()
        ? nlohmann::json::object()
        : parse_json(found->second, "[checkpoint.open] " + where);
  };
  try {
    const auto offsets = json_at(kShardingKey);
    for (const auto& [name, info] : offsets.items()) {
      places.offsets[name] = info.at("saved_offsets").get<Shape>();
    }
    const auto wholes = json_at(kWholeKey);
    for (const auto& [name, shape] : wholes.items()) {
      places.wholes[name] = shape.get<Shape>();
    }
  } catch (const nlohmann::json::exception& error) {
    refuse_metadata(where, error.what());
  } catch (const InvalidArgument& error) {
    refuse_metadata(where, error.what());
  }
  return places;
}

class SafetensorsSet {
 public:
  void add_file(const Source& file) {
    const SafetensorsHeader header = read_header(file);
    const PiecePlaces places = read_places(header, file->name());
    for (const StoredTensor& stored : header.tensors) {
      const std::string& name = stored.info.name;
      const auto offset = places.offsets.find(name);
      add_piece(
          stored,
          offset == places.offsets.end() ? Shape(stored.info.shape.size(), 0)
                                         : offset->second,
          file);
      const auto whole = places.wholes.find(name);
      if (whole != places.wholes.end() &&
          whole->second.size() == stored.info.shape.size()) {
        tensors_[name].info.shape = whole->second;
      }
    }
  }

  std::vector<SourceTensor> finish() {
    std::vector<SourceTensor> tensors;
    for (auto& [name, tensor] : tensors_) {
      grow_to_pieces(tensor);
      check_pieces(tensor);
      tensor.info.name =
          name.find('/') == std::string::npos ? "model/" + name : name;
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  void add_piece(const StoredTensor& stored, Shape offset, const Source& file) {
    SourceTensor& tensor = tensors_[stored.info.name];
    if (tensor.pieces.empty()) {
      tensor.info = stored.info;
    }
    bool fits = offset.size() == stored.info.shape.size() &&
        tensor.info.dtype == stored.info.dtype &&
        tensor.info.shape.size() == stored.info.shape.size();
    for (std::size_t d = 0; fits && d < offset.size(); ++d) {
      constexpr std::int64_t kMost = std::int64_t{1} << 48;
      fits =
          offset[d] >= 0 && offset[d] < kMost && stored.info.shape[d] < kMost;
    }
    if (!fits) {
      throw CheckpointError(
          str("[checkpoint.open] ",
              file->name(),
              ": a piece of ",
              stored.info,
              " does not fit to the others, or lies outside"));
    }
    tensor.pieces.push_back(
        {.box = {std::move(offset), stored.info.shape},
         .source = file,
         .offset = stored.offset,
         .strides = {},
         .file = 0,
         .hashes = {},
         .tags = {}});
  }

  // The whole ends where the last piece does.
  static void grow_to_pieces(SourceTensor& tensor) {
    for (const SourcePiece& piece : tensor.pieces) {
      for (std::size_t d = 0; d < tensor.info.shape.size(); ++d) {
        tensor.info.shape[d] = std::max(
            tensor.info.shape[d], piece.box.offset[d] + piece.box.size[d]);
      }
    }
  }

  static void check_pieces(const SourceTensor& tensor) {
    std::int64_t bytes = 8; // of the widest element
    for (const std::int64_t size : tensor.info.shape) {
      if (size < 0 ||
          __builtin_mul_overflow(
              bytes, std::max<std::int64_t>(size, 1), &bytes)) {
        refuse_metadata(
            tensor.pieces.front().source->name(),
            str("the whole of ", tensor.info, " is not possible"));
      }
    }
    std::vector<Box> boxes;
    for (const SourcePiece& piece : tensor.pieces) {
      boxes.push_back(piece.box);
    }
    const Cover cover = cover_of(tensor.info.shape, boxes);
    if (cover.overlaps || !cover.missing.empty()) {
      throw CheckpointError(str(
          "[checkpoint.open] ",
          tensor.pieces.front().source->name(),
          ": the pieces of ",
          tensor.info,
          cover.overlaps ? " overlap; several files have a tensor of that name"
                         : " do not cover it; a file is missing"));
    }
  }

  std::map<std::string, SourceTensor> tensors_; // by the files' names
};

// Files that the index names, or all of the folder.
std::set<std::string> files_of(const fs::Location& folder) {
  std::set<std::string> files;
  const auto limit = Deadline::after(std::chrono::minutes(2));
  if (!exists(below(folder, kIndexName))) {
    for (const fs::Entry& entry : folder.fs->list(folder.path, limit)) {
      constexpr std::string_view kEnd = ".safetensors";
      if (entry.name.size() > kEnd.size() &&
          entry.name.substr(entry.name.size() - kEnd.size()) == kEnd) {
        files.insert(entry.name);
      }
    }
    return files;
  }
  const std::string where = url_of(below(folder, kIndexName));
  const auto json = parse_json(
      fs::read_text(below(folder, kIndexName), limit),
      "[checkpoint.open] " + where);
  if (!json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object()) {
    throw CheckpointError(
        str("[checkpoint.open] ", where, " has no weight_map"));
  }
  for (const auto& [name, file] : json["weight_map"].items()) {
    const std::string path = file.is_string() ? file.get<std::string>() : "";
    check_relative(path, where);
    files.insert(path);
  }
  return files;
}

} // namespace

TensorSet open_safetensors(const fs::Location& location) {
  const auto entry = location.fs->stat(
      location.path, Deadline::after(std::chrono::minutes(2)));
  SafetensorsSet tensors;
  if (entry && entry->is_dir) {
    for (const std::string& file : files_of(location)) {
      tensors.add_file(open_source(below(location, file)));
    }
  } else {
    tensors.add_file(open_source(location));
  }
  TensorSet set{.format = Format::Safetensors, .url = url_of(location)};
  set.tensors = tensors.finish();
  sort_tensors(set);
  return set;
}

} // namespace argosy::checkpoint
