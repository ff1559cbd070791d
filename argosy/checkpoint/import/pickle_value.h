#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

namespace argosy::checkpoint {

// A view of a storage, as torch pickles tensors.
struct PickleTensor {
  DType dtype = DType::kF32;
  Shape shape;
  Shape strides;
  std::int64_t offset = 0; // elements, from the beginning of the storage
  std::string storage;     // its key
  std::uint64_t storage_bytes = 0;
};

// What a pickle holds. Values refer to each other and may form cycles; a Pickle
// owns them all.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kLong, // an integer of more than 64 bits: `text` has its bytes
    kFloat,
    kString,
    kBytes,
    kList,
    kTuple,
    kSet,
    kDict,    // `items`: key, value, key, value, ...
    kGlobal,  // a class or a function: `text` has its name
    kObject,  // of the class `text`, with `items` as arguments and `state`
    kStorage, // `tensor` has its key, type and size
    kTensor,
  };

  Kind kind = Kind::kNone;
  std::int64_t integer = 0; // kBool, kInteger
  double number = 0;        // kFloat
  std::string text;
  std::vector<const PickleValue*> items;
  const PickleValue* state = nullptr;
  std::unique_ptr<PickleTensor> tensor;

  bool is(Kind other) const { return kind == other; }
  // Of a dict, or of the dict that is an object's state: null if there is no
  // such key.
  const PickleValue* find(std::string_view key) const;
};

using PickleKind = PickleValue::Kind;

std::string_view to_string(PickleKind kind);

// An owner of values: plain storage, because cycles must be freed too.
class Pickle {
 public:
  // Throws CheckpointError if there are too many values: a pickle of a byte
  // makes a value of a hundred.
  PickleValue& add(PickleKind kind);

  // Counts as many values without adding any: before something is copied.
  void charge(std::size_t values);

  const PickleValue* root = nullptr;

 private:
  std::size_t charged_ = 0;
  std::deque<PickleValue> values_;
};

// Values without tensors as JSON: tuples and sets become arrays, other objects
// {"class": ..., "state": ...}. Numbers that JSON does not have become strings.
// Stops at `limit` values, so that values that contain each other end.
nlohmann::json to_json(const PickleValue& value, int limit = 100'000);

// What a dict's key is called in a tensor's name: strings and integers. Throws
// CheckpointError for others.
std::string key_text(const PickleValue& key);

} // namespace argosy::checkpoint
