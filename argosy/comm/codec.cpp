#include "argosy/comm/codec.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"

namespace argosy::comm {

std::string_view ByteReader::take(std::size_t count) {
  ARGOSY_CHECK(
      count <= rest_.size(),
      "[comm.codec] {} bytes left of an object, expected {}",
      rest_.size(),
      count);
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::size_t ByteReader::read_count() {
  constexpr std::uint64_t kMostWithoutBytes = 65'536;
  const auto count = read<std::uint64_t>();
  ARGOSY_CHECK(
      count <= std::max<std::uint64_t>(rest_.size(), kMostWithoutBytes),
      "[comm.codec] a list of {} elements in {} bytes, expected no more "
      "elements than bytes",
      count,
      rest_.size());
  return count;
}

bool Codec<bool>::decode(ByteReader& reader) {
  const auto byte = static_cast<unsigned char>(reader.take(1).front());
  ARGOSY_CHECK(
      byte <= 1, "[comm.codec] a bool is {}, expected 0 or 1", int{byte});
  return byte == 1;
}

void check_all_read(const ByteReader& reader) {
  ARGOSY_CHECK(
      reader.at_end(),
      "[comm.codec] an object has more bytes than its type: do all ranks use "
      "the same type?");
}

namespace {

// Values inside of values. The reader of CBOR calls itself for each level, and
// so do most users of a value.
constexpr int kMostLevels = 200;

// Reads a value without keeping it; refuses one that is too deep.
class LevelCount final : public nlohmann::json::json_sax_t {
 public:
  bool is_too_deep() const { return levels_ > kMostLevels; }

  bool start_object(std::size_t) override { return ++levels_ <= kMostLevels; }
  bool start_array(std::size_t) override { return ++levels_ <= kMostLevels; }
  bool end_object() override { return --levels_ >= 0; }
  bool end_array() override { return --levels_ >= 0; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool key(std::string&) override { return true; }
  bool parse_error(
      std::size_t,
      const std::string&,
      const nlohmann::detail::exception&) override {
    return false; // from_cbor() says what is wrong
  }

 private:
  int levels_ = 0;
};

} // namespace

void Codec<nlohmann::json>::encode(
    const nlohmann::json& value, std::string& bytes) {
  const auto cbor = nlohmann::json::to_cbor(value);
  encode_to(bytes, std::string(cbor.begin(), cbor.end()));
}

nlohmann::json Codec<nlohmann::json>::decode(ByteReader& reader) {
  const auto cbor = reader.read<std::string>();
  LevelCount levels;
  nlohmann::json::sax_parse(
      cbor, &levels, nlohmann::json::input_format_t::cbor);
  ARGOSY_CHECK(
      !levels.is_too_deep(),
      "[comm.codec] a JSON value of more than {} levels",
      kMostLevels);
  try {
    return nlohmann::json::from_cbor(cbor);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(str("[comm.codec] not a JSON value: ", error.what()));
  }
}

void Codec<at::Tensor>::encode(const at::Tensor& value, std::string& bytes) {
  encode_to(bytes, value.defined());
  if (!value.defined()) {
    return;
  }
  check_has_memory(value, "codec");
  const at::Tensor data = in_memory_order(value);
  encode_to(bytes, data.scalar_type(), data.sizes().vec());
  bytes.append(static_cast<const char*>(data.data_ptr()), data.nbytes());
}

namespace {

// Of elements that have memory of their own and no quantizer.
bool is_plain(c10::ScalarType type) {
  return type >= c10::ScalarType::Byte && type < c10::ScalarType::NumOptions &&
      type != c10::ScalarType::Undefined && !c10::isQIntType(type);
}

// Against the bytes that are there, before memory is taken for them. Torch
// multiplies all sizes, also where one of them is 0.
std::size_t checked_bytes(
    const std::vector<std::int64_t>& sizes,
    c10::ScalarType type,
    std::size_t bytes_left) {
  std::int64_t product = static_cast<std::int64_t>(c10::elementSize(type));
  bool fits = true;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    empty = empty || size == 0;
    fits = fits && size >= 0 &&
        !__builtin_mul_overflow(
               product, std::max<std::int64_t>(size, 1), &product);
  }
  const auto bytes = empty ? 0 : static_cast<std::size_t>(product);
  ARGOSY_CHECK(
      fits && bytes <= bytes_left,
      "[comm.codec] a tensor of sizes {} in {} bytes",
      c10::IntArrayRef(sizes),
      bytes_left);
  return bytes;
}

} // namespace

at::Tensor Codec<at::Tensor>::decode(ByteReader& reader) {
  if (!reader.read<bool>()) {
    return {};
  }
  const auto type = reader.read<c10::ScalarType>();
  ARGOSY_CHECK(
      is_plain(type),
      "[comm.codec] no type of elements {}",
      static_cast<int>(type));
  const auto sizes = reader.read<std::vector<std::int64_t>>();
  const std::string_view data =
      reader.take(checked_bytes(sizes, type, reader.bytes_left()));
  at::Tensor tensor = at::empty(sizes, type);
  if (!data.empty()) {
    std::memcpy(tensor.data_ptr(), data.data(), data.size());
  }
  return tensor;
}

void Codec<c10::IValue>::encode(const c10::IValue& value, std::string& bytes) {
  const std::vector<char> pickled = torch::jit::pickle_save(value);
  encode_to(bytes, std::string(pickled.begin(), pickled.end()));
}

c10::IValue Codec<c10::IValue>::decode(ByteReader& reader) {
  const auto pickled = reader.read<std::string>();
  try {
    return torch::jit::pickle_load({pickled.begin(), pickled.end()});
  } catch (const std::exception& error) {
    throw InvalidArgument(
        str("[comm.codec] not a pickled value: ", error.what()));
  }
}

} // namespace argosy::comm
