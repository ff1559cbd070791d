#include "argosy/rpc/arguments.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"
#include "argosy/rpc/error.h"

namespace argosy::rpc {

namespace {

constexpr std::size_t kMostDims = 64;

// The number of bytes of a tensor, checked before anything is done with it.
std::size_t checked_bytes(
    const std::vector<std::int64_t>& sizes, std::size_t element) {
  std::size_t bytes = element;
  for (const std::int64_t size : sizes) {
    ARGOSY_CHECK(
        size >= 0 &&
            !__builtin_mul_overflow(
                bytes, static_cast<std::size_t>(size), &bytes),
        "[rpc.codec] a dimension of {}, expected a tensor that fits in memory",
        size);
  }
  return bytes;
}

} // namespace

const Bytes& Unpacker::part() {
  ARGOSY_CHECK(
      next_part_ < message_.parts.size(),
      "[rpc.codec] a message has {} tensors, expected more: do both sides use "
      "the same types?",
      message_.parts.size());
  return message_.parts[next_part_++];
}

void Unpacker::end() const {
  comm::check_all_read(reader_);
  ARGOSY_CHECK(
      next_part_ == message_.parts.size(),
      "[rpc.codec] a message has {} tensors, expected {}",
      message_.parts.size(),
      next_part_);
}

void Packed<at::Tensor>::pack(const at::Tensor& value, Message& message) {
  comm::encode_to(message.head, value.defined());
  if (!value.defined()) {
    return;
  }
  comm::check_has_memory(value, "rpc");
  const auto data =
      std::make_shared<const at::Tensor>(comm::in_memory_order(value.detach()));
  comm::encode_to(message.head, data->scalar_type(), data->sizes().vec());
  message.parts.push_back(
      {static_cast<const std::byte*>(data->data_ptr()), data->nbytes(), data});
}

at::Tensor Packed<at::Tensor>::unpack(Unpacker& unpacker) {
  comm::ByteReader& reader = unpacker.reader();
  if (!reader.read<bool>()) {
    return {};
  }
  const auto type = reader.read<c10::ScalarType>();
  ARGOSY_CHECK(
      type >= c10::ScalarType::Byte && type < c10::ScalarType::Undefined,
      "[rpc.codec] no type of elements {}",
      static_cast<int>(type));
  const auto sizes = reader.read<std::vector<std::int64_t>>();
  const Bytes& part = unpacker.part();
  ARGOSY_CHECK(
      sizes.size() <= kMostDims &&
          checked_bytes(sizes, c10::elementSize(type)) == part.size,
      "[rpc.codec] a tensor of {} dimensions came with {} bytes, expected {}",
      sizes.size(),
      part.size,
      checked_bytes(sizes, c10::elementSize(type)));
  if (part.size == 0) {
    return at::empty(sizes, type);
  }
  // The received buffer is the tensor's memory. Nobody else writes to it.
  return at::from_blob(
      const_cast<std::byte*>(part.data),
      sizes,
      [keeper = part.keeper](void*) {},
      type);
}

void Packed<std::vector<at::Tensor>>::pack(
    const std::vector<at::Tensor>& values, Message& message) {
  comm::encode_to(message.head, std::uint64_t{values.size()});
  for (const at::Tensor& value : values) {
    Packed<at::Tensor>::pack(value, message);
  }
}

std::vector<at::Tensor> Packed<std::vector<at::Tensor>>::unpack(
    Unpacker& unpacker) {
  const auto count = unpacker.reader().read<std::uint64_t>();
  std::vector<at::Tensor> values;
  // Grows with what is there, not with what is announced.
  for (std::uint64_t i = 0; i < count; ++i) {
    values.push_back(Packed<at::Tensor>::unpack(unpacker));
  }
  return values;
}

std::string signature_text(
    const std::type_info& result,
    std::vector<const std::type_info*> arguments) {
  std::string text = demangled(result) + "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    text += (i > 0 ? ", " : "") + demangled(*arguments[i]);
  }
  return text + ")";
}

void check_signature(Unpacker& unpacker, const std::string& expected) {
  const auto given = unpacker.reader().read<std::string>();
  ARGOSY_CHECK(
      given == expected,
      "[rpc.call] called as {}, expected {}: give the result's type, and "
      "arguments of exactly these types",
      given,
      expected);
}

} // namespace argosy::rpc
