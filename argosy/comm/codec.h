#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace c10 {
struct IValue;
}

// Encodes values as bytes, for ranks that run the same program. Specialise
// Codec for your own types:
//
//   template <>
//   struct argosy::comm::Codec<Point> {
//     static void encode(const Point& point, std::string& bytes) {
//       encode_to(bytes, point.x, point.y);
//     }
//     static Point decode(ByteReader& reader) {
//       return {reader.read<double>(), reader.read<double>()};
//     }
//   };
namespace argosy::comm {

template <typename T, typename Enable = void>
struct Codec;

// Reads values in the order in which they were encoded. Throws InvalidArgument
// at the end of the bytes.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T read() {
    return Codec<T>::decode(*this);
  }

  std::string_view take(std::size_t count);
  // The number of elements of a list. It is not more than bytes are left, or
  // 65,536 where elements take none, so that bytes of another type make nobody
  // loop or allocate for long.
  std::size_t read_count();
  std::size_t bytes_left() const { return rest_.size(); }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

template <typename... Values>
void encode_to(std::string& bytes, const Values&... values) {
  (Codec<Values>::encode(values, bytes), ...);
}

template <typename T>
std::string encode(const T& value) {
  std::string bytes;
  encode_to(bytes, value);
  return bytes;
}

// Throws InvalidArgument if bytes are left.
void check_all_read(const ByteReader& reader);

template <typename T>
T decode(std::string_view bytes) {
  ByteReader reader(bytes);
  T value = reader.read<T>();
  check_all_read(reader);
  return value;
}

// Numbers and enums, as they lie in memory. The values of enums are not
// checked.
template <typename T>
struct Codec<
    T,
    std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  static void encode(const T& value, std::string& bytes) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static T decode(ByteReader& reader) {
    T value;
    std::memcpy(&value, reader.take(sizeof(T)).data(), sizeof(T));
    return value;
  }
};

// A byte, 0 or 1: any other value in a bool has no defined behaviour.
template <>
struct Codec<bool> {
  static void encode(bool value, std::string& bytes) {
    bytes.push_back(value ? '\1' : '\0');
  }
  static bool decode(ByteReader& reader);
};

template <>
struct Codec<std::string> {
  static void encode(const std::string& value, std::string& bytes) {
    encode_to(bytes, std::uint64_t{value.size()});
    bytes += value;
  }
  static std::string decode(ByteReader& reader) {
    const auto size = reader.read<std::uint64_t>();
    return std::string(reader.take(size));
  }
};

template <typename T>
struct Codec<std::vector<T>> {
  static void encode(const std::vector<T>& values, std::string& bytes) {
    encode_to(bytes, std::uint64_t{values.size()});
    for (const T& value : values) {
      encode_to(bytes, value);
    }
  }
  static std::vector<T> decode(ByteReader& reader) {
    const std::size_t size = reader.read_count();
    std::vector<T> values;
    for (std::size_t i = 0; i < size; ++i) {
      values.push_back(reader.read<T>());
    }
    return values;
  }
};

template <typename A, typename B>
struct Codec<std::pair<A, B>> {
  static void encode(const std::pair<A, B>& value, std::string& bytes) {
    encode_to(bytes, value.first, value.second);
  }
  static std::pair<A, B> decode(ByteReader& reader) {
    A first = reader.read<A>();
    return {std::move(first), reader.read<B>()};
  }
};

template <typename T>
struct Codec<std::optional<T>> {
  static void encode(const std::optional<T>& value, std::string& bytes) {
    encode_to(bytes, value.has_value());
    if (value) {
      encode_to(bytes, *value);
    }
  }
  static std::optional<T> decode(ByteReader& reader) {
    if (!reader.read<bool>()) {
      return std::nullopt;
    }
    return reader.read<T>();
  }
};

template <typename Key, typename Value>
struct Codec<std::map<Key, Value>> {
  static void encode(const std::map<Key, Value>& values, std::string& bytes) {
    encode_to(bytes, std::uint64_t{values.size()});
    for (const auto& [key, value] : values) {
      encode_to(bytes, key, value);
    }
  }
  static std::map<Key, Value> decode(ByteReader& reader) {
    const std::size_t size = reader.read_count();
    std::map<Key, Value> values;
    for (std::size_t i = 0; i < size; ++i) {
      Key key = reader.read<Key>();
      values.emplace(std::move(key), reader.read<Value>());
    }
    return values;
  }
};

template <>
struct Codec<nlohmann::json> {
  static void encode(const nlohmann::json& value, std::string& bytes);
  static nlohmann::json decode(ByteReader& reader);
};

// Type, shape and elements, without gradients.
template <>
struct Codec<at::Tensor> {
  static void encode(const at::Tensor& value, std::string& bytes);
  static at::Tensor decode(ByteReader& reader);
};

// Anything that TorchScript can pickle.
template <>
struct Codec<c10::IValue> {
  static void encode(const c10::IValue& value, std::string& bytes);
  static c10::IValue decode(ByteReader& reader);
};

} // namespace argosy::comm
