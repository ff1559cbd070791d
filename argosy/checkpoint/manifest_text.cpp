#include <cmath>
#include <span>
#include <string>

#include "argosy/checkpoint/manifest.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

using nlohmann::json;

// JSON has no NaN and no infinity: json::dump() would write null.
void check_finite(const json& value, const std::string& place) {
  if (value.is_number_float()) {
    ARGOSY_CHECK(
        std::isfinite(value.get<double>()),
        "[checkpoint.manifest] {} is {}, expected a finite number",
        place,
        value.get<double>());
  } else if (value.is_structured()) {
    for (const auto& [key, member] : value.items()) {
      check_finite(member, str(place, '.', key));
    }
  }
}

std::string json_text(const json& value, const std::string& place) {
  check_finite(value, place);
  try {
    return value.dump();
  } catch (const json::exception&) {
    throw InvalidArgument(
        str("[checkpoint.manifest] ", place, " has text that is not UTF-8"));
  }
}

void append_shape(std::string& text, const Shape& shape) {
  text += '[';
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += d > 0 ? "," : "";
    text += std::to_string(shape[d]);
  }
  text += ']';
}

void append_hashes(std::string& text, const std::vector<Hash128>& hashes) {
  text += '[';
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    text += i > 0 ? ",\"" : "\"";
    text += to_hex(hashes[i]);
    text += '"';
  }
  text += ']';
}

void append_piece(std::string& text, const PieceRecord& piece) {
  text += "{\"offset\":";
  append_shape(text, piece.box.offset);
  text += ",\"size\":";
  append_shape(text, piece.box.size);
  text += ",\"file\":" + std::to_string(piece.file);
  text += ",\"at\":" + std::to_string(piece.offset);
  text += ",\"hashes\":";
  append_hashes(text, piece.hashes);
  if (!piece.tags.empty()) {
    text += ",\"tags\":";
    append_hashes(text, piece.tags);
  }
  text += '}';
}

void append_tensor(std::string& text, const TensorRecord& tensor) {
  text += "{\"name\":" + json_text(tensor.info.name, "the name of a tensor");
  text += ",\"dtype\":\"";
  text += to_string(tensor.info.dtype);
  text += "\",\"shape\":";
  append_shape(text, tensor.info.shape);
  if (tensor.root) {
    text += ",\"root\":\"" + to_hex(*tensor.root) + '"';
  }
  text += ",\"pieces\":[";
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    text += i > 0 ? ",\n  " : tensor.pieces.size() > 1 ? "\n  " : "";
    append_piece(text, tensor.pieces[i]);
  }
  text += "]}";
}

template <typename Item, typename F>
void append_list(
    std::string& text,
    const char* name,
    const std::vector<Item>& items,
    const F& append) {
  text += str(",\n\"", name, "\":[");
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += i > 0 ? ",\n" : "\n";
    append(text, items[i]);
  }
  text += ']';
}

void append_file(std::string& text, const FileRecord& file) {
  text += "{\"path\":" + json_text(file.path, "the path of a file") +
      ",\"bytes\":" + std::to_string(file.bytes) + '}';
}

} // namespace

std::string to_text(const Manifest& manifest) {
  std::string text = "{\"format\":\"argosy-checkpoint\"";
  text += ",\n\"version\":" + std::to_string(manifest.version);
  text += ",\n\"step\":" + std::to_string(manifest.step);
  text += ",\n\"created\":" + json_text(manifest.created, "created");
  if (manifest.root) {
    text += ",\n\"root\":\"" + to_hex(*manifest.root) + '"';
  }
  if (manifest.encryption) {
    const json encryption = {
        {"algorithm", manifest.encryption->algorithm},
        {"salt", manifest.encryption->salt},
        {"check", manifest.encryption->check}};
    text += ",\n\"encryption\":" + json_text(encryption, "encryption");
  }
  text += ",\n\"values\":" + json_text(manifest.values, "values");
  text += ",\n\"layout\":" + json_text(manifest.layout, "layout");
  append_list(text, "files", manifest.files, append_file);
  append_list(text, "tensors", manifest.tensors, append_tensor);
  const Hash128 hash = hash_bytes(std::as_bytes(std::span(text)));
  return text + kManifestHashField + to_hex(hash) + "\"}\n";
}

} // namespace argosy::checkpoint
