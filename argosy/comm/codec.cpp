#include "argosy/comm/codec.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

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

void check_all_read(const ByteReader& reader) {
  ARGOSY_CHECK(
      reader.at_end(),
      "[comm.codec] an object has more bytes than its type: do all ranks use "
      "the same type?");
}

void Codec<nlohmann::json>::encode(
    const nlohmann::json& value, std::string& bytes) {
  const auto cbor = nlohmann::json::to_cbor(value);
  encode_to(bytes, std::string(cbor.begin(), cbor.end()));
}

nlohmann::json Codec<nlohmann::json>::decode(ByteReader& reader) {
  const auto cbor = reader.read<std::string>();
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

at::Tensor Codec<at::Tensor>::decode(ByteReader& reader) {
  if (!reader.read<bool>()) {
    return {};
  }
  const auto type = reader.read<c10::ScalarType>();
  ARGOSY_CHECK(
      type < c10::ScalarType::NumOptions,
      "[comm.codec] no type of elements ",
      static_cast<int>(type));
  const auto sizes = reader.read<std::vector<std::int64_t>>();
  at::Tensor tensor = at::empty(sizes, type);
  const std::string_view data = reader.take(tensor.nbytes());
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
  return torch::jit::pickle_load({pickled.begin(), pickled.end()});
}

} // namespace argosy::comm
