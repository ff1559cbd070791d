#include "argosy/compat/ms_ckpt.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <string_view>

#include "argosy/common/error.h"

namespace argosy::compat {

using checkpoint::DType;

namespace {

using Bytes = std::span<const std::byte>;

// Reads the fields of a protobuf message one after the other.
class WireReader {
 public:
  struct Field {
    std::uint64_t number = 0;
    std::uint64_t value = 0; // of varints
    Bytes bytes;             // of strings and messages
    bool is_bytes = false;
  };

  explicit WireReader(Bytes bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }
  std::size_t left() const { return rest_.size(); }

  // nullopt if the bytes are not a field.
  std::optional<Field> next() {
    const auto key = varint();
    if (!key) {
      return std::nullopt;
    }
    Field field;
    field.number = *key >> 3;
    switch (*key & 7) {
      case 0:
        return with_varint(field);
      case 1:
        return with_bytes(field, 8);
      case 2: {
        const auto length = varint();
        return length ? with_bytes(field, *length) : std::nullopt;
      }
      case 5:
        return with_bytes(field, 4);
      default:
        return std::nullopt;
    }
  }

  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint64_t>(rest_.front());
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) {
        return value;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Field> with_varint(Field field) {
    const auto value = varint();
    field.value = value.value_or(0);
    return value ? std::optional(field) : std::nullopt;
  }

  std::optional<Field> with_bytes(Field field, std::uint64_t length) {
    if (length > rest_.size()) {
      return std::nullopt;
    }
    field.bytes = rest_.first(length);
    field.is_bytes = true;
    rest_ = rest_.subspan(length);
    return field;
  }

  Bytes rest_;
};

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void throw_bad_ckpt(
    const std::string& path, const std::string& what) {
  throw CheckpointError(str("[checkpoint] ", path, ": ", what));
}

// "Float32", "mindspore.float32" -> F32.
DType dtype_of_mindspore(
    const std::string& name,
    const std::string& tensor,
    const std::string& path) {
  std::string lower = name.substr(name.rfind('.') + 1);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  static constexpr std::array<std::pair<std::string_view, DType>, 15> kTypes{{
      {"float32", DType::kF32},
      {"float16", DType::kF16},
      {"bfloat16", DType::kBF16},
      {"float64", DType::kF64},
      {"int8", DType::kI8},
      {"int16", DType::kI16},
      {"int32", DType::kI32},
      {"int64", DType::kI64},
      {"uint8", DType::kU8},
      {"uint16", DType::kU16},
      {"uint32", DType::kU32},
      {"uint64", DType::kU64},
      {"bool", DType::kBool},
      {"bool_", DType::kBool},
      {"complex64", DType::kC64},
  }};
  for (const auto& [known, dtype] : kTypes) {
    if (lower == known) {
      return dtype;
    }
  }
  throw_bad_ckpt(
      path, str(tensor, " has the type ", name, ", which is not known"));
}

struct RawTensor {
  checkpoint::Shape dims;
  std::string type;
  Bytes content;
};

void read_dims(const WireReader::Field& field, checkpoint::Shape& dims) {
  if (!field.is_bytes) {
    dims.push_back(static_cast<std::int64_t>(field.value));
    return;
  }
  WireReader packed(field.bytes);
  while (const auto value = packed.at_end() ? std::nullopt : packed.varint()) {
    dims.push_back(static_cast<std::int64_t>(*value));
  }
}

std::optional<RawTensor> read_tensor(Bytes bytes) {
  RawTensor tensor;
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) {
      return std::nullopt;
    }
    if (field->number == 1) {
      read_dims(*field, tensor.dims);
    } else if (field->number == 2 && field->is_bytes) {
      tensor.type = text_of(field->bytes);
    } else if (field->number == 3 && field->is_bytes) {
      tensor.content = field->bytes;
    }
  }
  return tensor;
}

struct RawValue {
  std::string tag;
  RawTensor tensor;
};

RawValue read_value(Bytes bytes, const std::string& path) {
  RawValue value;
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) {
      throw_bad_ckpt(path, "damaged, encrypted, or not a checkpoint");
    }
    if (field->number == 1 && field->is_bytes) {
      value.tag = text_of(field->bytes);
    } else if (field->number == 2 && field->is_bytes) {
      const auto tensor = read_tensor(field->bytes);
      if (!tensor) {
        throw_bad_ckpt(path, value.tag + " is damaged");
      }
      value.tensor = *tensor;
    } else if (field->number == 3) {
      throw_bad_ckpt(path, value.tag + " is a hash table, expected a tensor");
    }
  }
  return value;
}

// The bytes of a tensor of this shape; nullopt if a size is negative or they
// are more than any file has.
std::optional<std::uint64_t> bytes_of_dims(
    const checkpoint::Shape& dims, DType dtype) {
  auto bytes = static_cast<std::uint64_t>(checkpoint::element_bytes(dtype));
  for (const std::int64_t size : dims) {
    if (size < 0 || size > std::int64_t{1} << 40 ||
        (bytes *= static_cast<std::uint64_t>(size)) > std::uint64_t{1} << 50) {
      return std::nullopt;
    }
  }
  return bytes;
}

void check_bytes(const CkptTensor& tensor, const std::string& path) {
  std::uint64_t sum = 0;
  for (const Bytes chunk : tensor.chunks) {
    sum += chunk.size();
  }
  if (bytes_of_dims(tensor.info.shape, tensor.info.dtype) != sum) {
    throw_bad_ckpt(
        path, str(tensor.info, " has ", sum, " bytes, which do not match"));
  }
}

constexpr std::size_t kCrcBytes = 17;

} // namespace

std::map<std::string, CkptTensor> parse_ckpt(
    Bytes bytes, const std::string& path) {
  std::map<std::string, CkptTensor> tensors;
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const bool may_be_crc = reader.left() == kCrcBytes;
    const auto field = reader.next();
    if (!field || field->number != 1 || !field->is_bytes) {
      if (may_be_crc) {
        break;
      }
      throw_bad_ckpt(path, "damaged, encrypted, or not a checkpoint");
    }
    const RawValue value = read_value(field->bytes, path);
    CkptTensor& tensor = tensors[value.tag];
    if (tensor.chunks.empty()) {
      tensor.info = {
          value.tag,
          dtype_of_mindspore(value.tensor.type, value.tag, path),
          value.tensor.dims};
    }
    tensor.chunks.push_back(value.tensor.content);
  }
  for (auto& [name, tensor] : tensors) {
    // MindSpore writes [0] for scalars.
    if (tensor.info.shape == checkpoint::Shape{0} &&
        !tensor.chunks.front().empty()) {
      tensor.info.shape.clear();
    }
    check_bytes(tensor, path);
  }
  return tensors;
}

} // namespace argosy::compat
