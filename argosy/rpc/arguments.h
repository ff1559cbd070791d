#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "argosy/comm/codec.h"
#include "argosy/rpc/message.h"

// Arguments and results of remote functions as messages: tensors as parts,
// which are not copied; everything else by its Codec (argosy/comm/codec.h).
namespace argosy::rpc {

// Reads the values of a message in their order.
class Unpacker {
 public:
  explicit Unpacker(const Message& message)
      : reader_(message.head), message_(message) {}

  comm::ByteReader& reader() { return reader_; }

  // The next part. Throws InvalidArgument if there is none.
  const Bytes& part();

  // Throws InvalidArgument if something is left.
  void end() const;

 private:
  comm::ByteReader reader_;
  const Message& message_;
  std::size_t next_part_ = 0;
};

template <typename T>
struct Packed {
  static void pack(const T& value, Message& message) {
    comm::encode_to(message.head, value);
  }
  static T unpack(Unpacker& unpacker) {
    return unpacker.reader().template read<T>();
  }
};

// Of the CPU; other devices' values have to be brought there first. The memory
// must not change until the call has ended.
template <>
struct Packed<at::Tensor> {
  static void pack(const at::Tensor& value, Message& message);
  static at::Tensor unpack(Unpacker& unpacker);
};

template <>
struct Packed<std::vector<at::Tensor>> {
  static void pack(const std::vector<at::Tensor>& values, Message& message);
  static std::vector<at::Tensor> unpack(Unpacker& unpacker);
};

// How a value of type T travels: without const and reference, texts as strings.
template <typename T>
using Plain = std::conditional_t<
    std::is_same_v<std::decay_t<T>, const char*> ||
        std::is_same_v<std::decay_t<T>, char*>,
    std::string,
    std::decay_t<T>>;

// "int(int, double)", for messages.
std::string signature_text(
    const std::type_info& result, std::vector<const std::type_info*> arguments);

template <typename R, typename... Args>
const std::string& signature() {
  static const std::string text =
      signature_text(typeid(Plain<R>), {&typeid(Plain<Args>)...});
  return text;
}

// A call of a function with the arguments' types and values.
template <typename R, typename... Args>
Message pack_call(const Args&... args) {
  Message message;
  comm::encode_to(message.head, signature<R, Args...>());
  (Packed<Plain<Args>>::pack(args, message), ...);
  return message;
}

// Throws InvalidArgument unless the call was packed for this signature.
void check_signature(Unpacker& unpacker, const std::string& expected);

template <typename... Args>
std::tuple<Plain<Args>...> unpack_arguments(Unpacker& unpacker) {
  std::tuple<Plain<Args>...> arguments{
      Packed<Plain<Args>>::unpack(unpacker)...};
  unpacker.end();
  return arguments;
}

template <typename R>
R unpack_result(const Message& message) {
  Unpacker unpacker(message);
  R result = Packed<R>::unpack(unpacker);
  unpacker.end();
  return result;
}

} // namespace argosy::rpc
