#include "argosy/data/slots/tf_example.h"

#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/data/slots/protobuf_reader.h"

namespace argosy::data {

namespace {

using Target = FieldSample::Target;
using Wire = ProtobufReader::Wire;

// Field numbers of tf.train.Example and what it is made of.
constexpr std::uint64_t kExampleFeatures = 1;
constexpr std::uint64_t kFeaturesFeature = 1; // a map: messages of key, value
constexpr std::uint64_t kMapKey = 1;
constexpr std::uint64_t kMapValue = 2;
constexpr std::uint64_t kFeatureBytes = 1;
constexpr std::uint64_t kFeatureFloats = 2;
constexpr std::uint64_t kFeatureInts = 3;
constexpr std::uint64_t kListValue = 1;

// Methods return false for what is wrong; `fault` tells then.
class Example {
 public:
  Example(std::string_view bytes, FieldSample& sample)
      : begin_(bytes.data()), sample_(sample) {}

  bool read(std::string_view bytes) {
    return each_message(
        bytes, kExampleFeatures, [this](std::string_view features) {
          return each_message(
              features, kFeaturesFeature, [this](std::string_view entry) {
                return map_entry(entry);
              });
        });
  }

  ByteFault fault;

 private:
  bool fail(std::string_view at, std::string what) {
    fault = {static_cast<std::size_t>(at.data() - begin_), std::move(what)};
    return false;
  }

  // Calls take(reader) for each field; it returns false to stop.
  template <typename Take>
  bool each_field(std::string_view message, const Take& take) {
    ProtobufReader reader(message);
    for (;;) {
      const std::string_view at = reader.left();
      switch (reader.next()) {
        case ProtobufReader::Step::End:
          return true;
        case ProtobufReader::Step::Bad:
          return fail(at, "no field of a tf.train.Example");
        case ProtobufReader::Step::Field:
          if (!take(reader)) {
            return false;
          }
      }
    }
  }

  template <typename Take>
  bool each_message(
      std::string_view message, std::uint64_t number, const Take& take) {
    return each_field(message, [&](const ProtobufReader& field) {
      return !field.is(number, Wire::Bytes) || take(field.bytes());
    });
  }

  bool map_entry(std::string_view entry) {
    std::string_view key;
    std::string_view feature;
    const bool is_good = each_field(entry, [&](const ProtobufReader& field) {
      key = field.is(kMapKey, Wire::Bytes) ? field.bytes() : key;
      feature = field.is(kMapValue, Wire::Bytes) ? field.bytes() : feature;
      return true;
    });
    if (!is_good) {
      return false;
    }
    const Target target = sample_.target_of(key);
    if (target.kind == Target::Kind::Ignored) {
      return true;
    }
    sample_.clear(target); // of a key that comes twice, the last one counts
    return values(target, feature);
  }

  bool values(const Target& target, std::string_view feature) {
    return each_field(feature, [&](const ProtobufReader& kind) {
      if (kind.wire() != Wire::Bytes) {
        return true;
      }
      const bool is_good =
          each_field(kind.bytes(), [&](const ProtobufReader& list) {
            return list.number() != kListValue ||
                value(target, kind.number(), list);
          });
      return is_good;
    });
  }

  // One value, or several that are packed.
  bool value(
      const Target& target, std::uint64_t kind, const ProtobufReader& list) {
    const std::string_view bytes = list.bytes();
    switch (kind) {
      case kFeatureBytes:
        return list.wire() != Wire::Bytes ||
            told(sample_.add_word(target, bytes), bytes);
      case kFeatureFloats:
        return (list.wire() != Wire::Bytes && list.wire() != Wire::Fixed32) ||
            floats(target, bytes);
      case kFeatureInts:
        return list.wire() == Wire::Varint
            ? told(integer(target, list.varint()), list.left())
            : list.wire() != Wire::Bytes || integers(target, bytes);
      default:
        return true;
    }
  }

  bool told(bool is_good, std::string_view at) {
    return is_good || fail(at, sample_.what());
  }

  bool floats(const Target& target, std::string_view bytes) {
    if (bytes.size() % sizeof(float) != 0) {
      return fail(bytes, "floats that are cut off");
    }
    for (; !bytes.empty(); bytes.remove_prefix(sizeof(float))) {
      float value;
      std::memcpy(&value, bytes.data(), sizeof(value));
      if (!told(sample_.add_float(target, value), bytes)) {
        return false;
      }
    }
    return true;
  }

  // An id has the bits of the number: from 2^63 on, they are negative here.
  bool integer(const Target& target, std::uint64_t bits) {
    const auto value = static_cast<std::int64_t>(bits);
    return value < 0 && target.kind == Target::Kind::Slot &&
            sample_.slot(target).type == SlotType::Float
        ? sample_.add_float(target, static_cast<float>(value))
        : sample_.add_id(target, bits);
  }

  bool integers(const Target& target, std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view at = bytes;
      std::uint64_t value = 0;
      if (!ProtobufReader::take_varint(bytes, value)) {
        return fail(at, "an integer that is cut off");
      }
      if (!told(integer(target, value), at)) {
        return false;
      }
    }
    return true;
  }

  const char* const begin_;
  FieldSample& sample_;
};

} // namespace

std::optional<ByteFault> add_tf_example(
    std::string_view bytes, FieldSample& sample, Records& into) {
  sample.begin();
  Example example(bytes, sample);
  if (!example.read(bytes)) {
    return std::move(example.fault);
  }
  if (!sample.finish(into)) {
    return ByteFault{bytes.size(), sample.what()};
  }
  return std::nullopt;
}

} // namespace argosy::data
