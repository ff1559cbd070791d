#include "argosy/checkpoint/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "argosy/checkpoint/json_cursor.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// A JSON string. Throws InvalidArgument if it is not UTF-8.
std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InvalidArgument(
        str("[checkpoint.lay_out] \"", text, "\" is not UTF-8"));
  }
}

std::string numbers_json(const Shape& numbers) {
  return nlohmann::json(numbers).dump();
}

// The JSON text of a header, whatever data_begin is.
std::string header_json(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += str('"', kMetadata, "\":{");
    for (const auto& [key, value] : header.metadata) {
      text +=
          str(text.back() == '{' ? "" : ",", quoted(key), ':', quoted(value));
    }
    text += '}';
  }
  for (const StoredTensor& tensor : header.tensors) {
    const std::uint64_t begin = tensor.offset - header.data_begin;
    text +=
        str(text.size() > 1 ? "," : "",
            quoted(tensor.info.name),
            ":{\"dtype\":\"",
            to_string(tensor.info.dtype),
            "\",\"shape\":",
            numbers_json(tensor.info.shape),
            ",\"data_offsets\":[",
            begin,
            ',',
            begin + tensor.bytes,
            "]}");
  }
  return text + '}';
}

void check_laid_out(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  for (const TensorInfo& info : tensors) {
    ARGOSY_CHECK(
        info.name != kMetadata &&
            std::ranges::all_of(info.shape, [](auto n) { return n >= 0; }),
        "[checkpoint.lay_out] a tensor of this name and shape: {}",
        info);
    names.push_back(info.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  ARGOSY_CHECK(
      twice == names.end(),
      "[checkpoint.lay_out] two tensors of the name {} in one file",
      *twice);
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

} // namespace

SafetensorsHeader lay_out(
    std::vector<TensorInfo> tensors,
    std::map<std::string, std::string> metadata,
    std::uint64_t alignment) {
  ARGOSY_CHECK(
      alignment > 0 && alignment % 8 == 0,
      "[checkpoint.lay_out] alignment {}, expected a multiple of 8",
      alignment);
  check_laid_out(tensors);
  std::ranges::sort(tensors, [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
  });
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  for (TensorInfo& info : tensors) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(dtensor::numel(info.shape)) *
        element_bytes(info.dtype);
    header.tensors.push_back({std::move(info), header.file_bytes, bytes});
    header.file_bytes += bytes;
  }
  const std::uint64_t size = 8 + header_json(header).size();
  header.data_begin = round_up(size, alignment);
  ARGOSY_CHECK(
      header.data_begin <= kMostHeaderBytes,
      "[checkpoint.lay_out] a header of {} bytes for {} tensors, expected {} "
      "at most",
      header.data_begin,
      header.tensors.size(),
      kMostHeaderBytes);
  header.file_bytes += header.data_begin;
  for (StoredTensor& tensor : header.tensors) {
    tensor.offset += header.data_begin;
  }
  return header;
}

std::string header_bytes(const SafetensorsHeader& header) {
  const std::string json = header_json(header);
  ARGOSY_CHECK(
      8 + json.size() <= header.data_begin,
      "[checkpoint.header_bytes] {} bytes, expected {} at most, as lay_out() "
      "makes them",
      8 + json.size(),
      header.data_begin);
  const std::uint64_t length = header.data_begin - 8;
  std::string bytes;
  bytes.reserve(header.data_begin);
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>(length >> 8 * i & 255);
  }
  bytes += json;
  bytes.resize(header.data_begin, ' ');
  return bytes;
}

std::uint64_t header_size(
    std::span<const std::byte> first8,
    std::uint64_t file_bytes,
    const std::string& path) {
  if (first8.size() < 8 || file_bytes < 8) {
    throw CheckpointError(
        str("[checkpoint.safetensors] ",
            path,
            ": ",
            file_bytes,
            " bytes, expected the 8 of a safetensors file's length at least"));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(first8[i]);
  }
  if (length > kMostHeaderBytes || length > file_bytes - 8) {
    throw CheckpointError(
        str("[checkpoint.safetensors] ",
            path,
            ": a header of ",
            length,
            " bytes in a file of ",
            file_bytes,
            ", expected ",
            kMostHeaderBytes,
            " at most, inside of the file"));
  }
  return length + 8;
}

namespace {

// Reads the entry of one tensor; its offset is relative to the data still.
StoredTensor parse_entry(JsonCursor& cursor, const std::string& name) {
  StoredTensor tensor;
  tensor.info.name = name;
  std::vector<std::int64_t> range;
  const auto read_field = [&](std::size_t field) {
    if (field == 0) {
      try {
        tensor.info.dtype = dtype_of(cursor.plain_string());
      } catch (const CheckpointError& error) {
        cursor.fail(error.what());
      }
    } else if (field == 1) {
      tensor.info.shape = cursor.shape();
    } else {
      range = cursor.shape();
    }
  };
  const std::uint32_t found =
      cursor.fields({"dtype", "shape", "data_offsets"}, read_field, true);
  cursor.require(found, {"dtype", "shape", "data_offsets"}, 3);
  if (range.size() != 2 || range[0] > range[1]) {
    cursor.fail("data_offsets: expected a begin and an end behind it");
  }
  tensor.offset = static_cast<std::uint64_t>(range[0]);
  tensor.bytes = static_cast<std::uint64_t>(range[1] - range[0]);
  const std::uint64_t expected =
      checked_bytes(tensor.info.shape, tensor.info.dtype, cursor);
  if (tensor.bytes != expected) {
    cursor.fail(
        str("data_offsets of ",
            tensor.bytes,
            " bytes, expected ",
            expected,
            " for ",
            to_string(tensor.info.dtype),
            ' ',
            shape_text(tensor.info.shape)));
  }
  return tensor;
}

std::map<std::string, std::string> parse_metadata(JsonCursor& cursor) {
  std::map<std::string, std::string> metadata;
  cursor.object([&](const std::string& key) {
    if (!metadata.emplace(key, cursor.string()).second) {
      cursor.fail("is there twice");
    }
  });
  return metadata;
}

[[noreturn]] void fail_header(
    const std::string& path, const std::string& what) {
  throw CheckpointError(str("[checkpoint.safetensors] ", path, ": ", what));
}

void check_names(
    const std::vector<StoredTensor>& tensors, const std::string& path) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    names.push_back(tensor.info.name);
  }
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) {
    fail_header(path, str("the tensor ", *twice, " is there twice"));
  }
}

// Tensors follow each other without gaps from the first byte to the last.
void check_places(SafetensorsHeader& header, const std::string& path) {
  std::uint64_t next = header.data_begin;
  for (StoredTensor& tensor : header.tensors) {
    const std::uint64_t begin = tensor.offset;
    if (begin > header.file_bytes || begin + header.data_begin != next) {
      fail_header(
          path,
          str("the tensor ",
              tensor.info.name,
              " begins at byte ",
              begin,
              " of the data, expected ",
              next - header.data_begin,
              ", where the one before it ends"));
    }
    tensor.offset = next;
    next += tensor.bytes;
    if (next > header.file_bytes) {
      fail_header(
          path,
          str("the tensor ",
              tensor.info.name,
              " ends at byte ",
              next,
              " of a file of ",
              header.file_bytes,
              ": the file is truncated"));
    }
  }
  if (next != header.file_bytes) {
    fail_header(
        path,
        str("a file of ",
            header.file_bytes,
            " bytes, expected ",
            next,
            ", where the last tensor ends"));
  }
}

} // namespace

SafetensorsHeader parse_header(
    std::string_view bytes, std::uint64_t file_bytes, const std::string& path) {
  SafetensorsHeader header;
  header.file_bytes = file_bytes;
  header.data_begin = header_size(
      std::as_bytes(std::span(bytes.substr(0, 8))), file_bytes, path);
  if (bytes.size() != header.data_begin) {
    fail_header(
        path, str(bytes.size(), " bytes of a header of ", header.data_begin));
  }
  const std::string_view json = bytes.substr(8);
  if (!json.starts_with('{')) {
    fail_header(path, "expected '{' as the first byte of the header");
  }
  JsonCursor cursor(json, path);
  bool has_metadata = false;
  cursor.object([&](const std::string& name) {
    if (name != kMetadata) {
      header.tensors.push_back(parse_entry(cursor, name));
      return;
    }
    if (std::exchange(has_metadata, true)) {
      cursor.fail("is there twice");
    }
    header.metadata = parse_metadata(cursor);
  });
  cursor.end();
  check_names(header.tensors, path);
  // Empty tensors share their offset: they stay in the order of the text.
  std::ranges::stable_sort(
      header.tensors, [](const StoredTensor& a, const StoredTensor& b) {
        return std::tie(a.offset, a.bytes) < std::tie(b.offset, b.bytes);
      });
  check_places(header, path);
  return header;
}

std::map<std::string, std::string> piece_metadata(
    const std::vector<std::pair<TensorInfo, Box>>& pieces) {
  auto offsets = nlohmann::json::object();
  auto shapes = nlohmann::json::object();
  for (const auto& [info, box] : pieces) {
    ARGOSY_CHECK(
        !offsets.contains(info.name),
        "[checkpoint.piece_metadata] two pieces of {} in one file",
        info);
    offsets[info.name] = {{"saved_offsets", box.offset}};
    shapes[info.name] = info.shape;
  }
  return {
      {"format", "pt"},
      {"DCP_VERSION", "1.0"},
      {"DCP_SHARDING_INFO", offsets.dump()},
      {"argosy.whole_shapes", shapes.dump()}};
}

} // namespace argosy::checkpoint
