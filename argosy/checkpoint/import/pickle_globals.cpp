#include "argosy/checkpoint/import/pickle_globals.h"

#include <limits>
#include <unordered_map>
#include <utility>

#include "argosy/checkpoint/import/little_endian.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

using Arguments = std::vector<const PickleValue*>;

constexpr std::size_t kMostDims = 64; // as torch has it
constexpr std::size_t kLongestKey = 256;

[[noreturn]] void refuse_call(
    std::string_view name, const std::string& expected) {
  throw InvalidArgument(str("a call of ", name, ", expected ", expected));
}

// What becomes of a call.
enum class Call {
  kNone, // not to be called
  kDict,
  kList,
  kSet,
  kFirst,  // its first argument
  kScalar, // the same, or 0 without one
  kBytes,
  kObject,
  kTensor,   // of a typed storage
  kTensorV3, // of an untyped storage and a type
  kTensorOfType,
  kNumpyType,
  kNumpyScalar,
};

const std::unordered_map<std::string_view, Call>& calls() {
  static const std::unordered_map<std::string_view, Call> table{
      {"collections.OrderedDict", Call::kDict},
      {"collections.Counter", Call::kDict},
      {"collections.defaultdict", Call::kDict},
      {"builtins.dict", Call::kDict},
      {"builtins.list", Call::kList},
      {"builtins.tuple", Call::kList},
      {"builtins.set", Call::kSet},
      {"builtins.frozenset", Call::kSet},
      {"builtins.int", Call::kScalar},
      {"builtins.float", Call::kScalar},
      {"builtins.bool", Call::kScalar},
      {"builtins.str", Call::kScalar},
      {"builtins.bytearray", Call::kScalar},
      {"builtins.bytes", Call::kScalar},
      {"builtins.complex", Call::kObject},
      {"builtins.slice", Call::kObject},
      {"_codecs.encode", Call::kBytes},
      {"numpy.dtype", Call::kNumpyType},
      {"numpy.core.multiarray.scalar", Call::kNumpyScalar},
      {"numpy._core.multiarray.scalar", Call::kNumpyScalar},
      {"torch.Size", Call::kFirst},
      {"torch.device", Call::kFirst},
      {"torch.serialization._get_layout", Call::kFirst},
      {"torch._utils._rebuild_tensor", Call::kTensor},
      {"torch._utils._rebuild_tensor_v2", Call::kTensor},
      {"torch._utils._rebuild_tensor_v3", Call::kTensorV3},
      {"torch._utils._rebuild_parameter", Call::kFirst},
      {"torch._utils._rebuild_parameter_with_state", Call::kFirst},
      {"torch._tensor._rebuild_from_type_v2", Call::kTensorOfType},
      {"torch.nn.parameter.Parameter", Call::kFirst},
      {"torch.Tensor", Call::kNone},
      {"torch.storage.UntypedStorage", Call::kNone},
      {"torch.storage._UntypedStorage", Call::kNone},
      {"torch.storage.TypedStorage", Call::kNone},
      {"torch.jit._pickle.build_intlist", Call::kFirst},
      {"torch.jit._pickle.build_doublelist", Call::kFirst},
      {"torch.jit._pickle.build_boollist", Call::kFirst},
      {"torch.jit._pickle.build_tensorlist", Call::kFirst},
      {"torch.jit._pickle.restore_type_tag", Call::kFirst},
      {"pathlib.PosixPath", Call::kObject},
      {"pathlib._local.PosixPath", Call::kObject},
      {"torch.distributed.checkpoint.metadata.Metadata", Call::kObject},
      {"torch.distributed.checkpoint.metadata.MetadataIndex", Call::kObject},
      {"torch.distributed.checkpoint.metadata.StorageMeta", Call::kObject},
      {"torch.distributed.checkpoint.metadata.TensorProperties", Call::kObject},
      {"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
       Call::kObject},
      {"torch.distributed.checkpoint.metadata.TensorStorageMetadata",
       Call::kObject},
      {"torch.distributed.checkpoint.metadata.BytesStorageMetadata",
       Call::kObject},
      {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
       Call::kObject},
      {"torch.distributed.checkpoint.filesystem._StorageInfo", Call::kObject},
  };
  return table;
}

struct TorchType {
  DType dtype;
  std::string_view name;    // torch.<name>
  std::string_view storage; // torch.<storage>; empty if there is none
};

constexpr TorchType kTorchTypes[] = {
    {DType::kBool, "bool", "BoolStorage"},
    {DType::kU8, "uint8", "ByteStorage"},
    {DType::kI8, "int8", "CharStorage"},
    {DType::kF8E5M2, "float8_e5m2", ""},
    {DType::kF8E4M3, "float8_e4m3fn", ""},
    {DType::kI16, "int16", "ShortStorage"},
    {DType::kU16, "uint16", ""},
    {DType::kF16, "float16", "HalfStorage"},
    {DType::kBF16, "bfloat16", "BFloat16Storage"},
    {DType::kI32, "int32", "IntStorage"},
    {DType::kU32, "uint32", ""},
    {DType::kF32, "float32", "FloatStorage"},
    {DType::kC64, "complex64", "ComplexFloatStorage"},
    {DType::kF64, "float64", "DoubleStorage"},
    {DType::kI64, "int64", "LongStorage"},
    {DType::kU64, "uint64", ""},
};

const TorchType& torch_type_of(DType dtype) {
  for (const TorchType& type : kTorchTypes) {
    if (type.dtype == dtype) {
      return type;
    }
  }
  throw InternalError("a type of elements that torch does not have");
}

std::string_view without_torch(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size())
                                                   : std::string_view();
}

const TorchType* type_of_storage(std::string_view global) {
  const std::string_view name = without_torch(global);
  for (const TorchType& type : kTorchTypes) {
    if (!name.empty() && type.storage == name) {
      return &type;
    }
  }
  return nullptr;
}

bool is_untyped(std::string_view global) {
  return global == "torch.storage.UntypedStorage" ||
      global == "torch.storage._UntypedStorage";
}

// Classes of torch::save's archives have no contents but their attributes.
bool is_script_class(std::string_view name) {
  return name.substr(0, 9) == "__torch__";
}

const PickleValue& argument(
    std::string_view name, const Arguments& arguments, std::size_t index) {
  if (index >= arguments.size()) {
    refuse_call(name, str("at least ", index + 1, " arguments"));
  }
  return *arguments[index];
}

std::int64_t integer_argument(
    std::string_view name, const Arguments& arguments, std::size_t index) {
  const PickleValue& value = argument(name, arguments, index);
  if (!value.is(PickleKind::kInteger) || value.integer < 0) {
    refuse_call(name, str("an integer as argument ", index));
  }
  return value.integer;
}

Shape shape_argument(
    std::string_view name, const Arguments& arguments, std::size_t index) {
  const PickleValue& value = argument(name, arguments, index);
  const bool sequence =
      value.is(PickleKind::kTuple) || value.is(PickleKind::kList);
  if (!sequence || value.items.size() > kMostDims) {
    refuse_call(name, str("a tuple of sizes as argument ", index));
  }
  Shape shape;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    shape.push_back(integer_argument(name, value.items, i));
  }
  return shape;
}

// Elements up to the last one that the view has, as an offset in the storage;
// none if that does not fit.
std::optional<std::int64_t> end_of_view(const PickleTensor& tensor) {
  std::int64_t end = tensor.offset;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    if (tensor.shape[d] == 0) {
      return 0;
    }
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(
            tensor.shape[d] - 1, tensor.strides[d], &reach) ||
        __builtin_add_overflow(end, reach, &end)) {
      return std::nullopt;
    }
  }
  return end < std::numeric_limits<std::int64_t>::max() ? std::optional(end + 1)
                                                        : std::nullopt;
}

// Sizes of views that repeat elements (stride 0) are not bounded by the
// storage, and must fit all the same.
bool has_countable_elements(const Shape& shape) {
  std::int64_t count = 8; // bytes of the widest element
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
  }
  for (const std::int64_t size : shape) {
    if (!empty && __builtin_mul_overflow(count, size, &count)) {
      return false;
    }
  }
  return true;
}

PickleValue& make_tensor(
    Pickle& pickle,
    std::string_view name,
    const Arguments& arguments,
    std::optional<DType> dtype) {
  const PickleValue& storage = argument(name, arguments, 0);
  if (!storage.is(PickleKind::kStorage)) {
    refuse_call(name, "a storage as argument 0");
  }
  auto tensor = std::make_unique<PickleTensor>(*storage.tensor);
  tensor->dtype = dtype.value_or(tensor->dtype);
  tensor->offset = integer_argument(name, arguments, 1);
  tensor->shape = shape_argument(name, arguments, 2);
  tensor->strides = shape_argument(name, arguments, 3);
  if (tensor->shape.size() != tensor->strides.size()) {
    refuse_call(name, "as many strides as sizes");
  }
  const auto end = end_of_view(*tensor);
  const std::uint64_t elements =
      tensor->storage_bytes / element_bytes(tensor->dtype);
  if (!end || static_cast<std::uint64_t>(*end) > elements ||
      !has_countable_elements(tensor->shape)) {
    refuse_call(name, str("a view within the ", elements, " elements"));
  }
  PickleValue& value = pickle.add(PickleKind::kTensor);
  value.tensor = std::move(tensor);
  return value;
}

PickleValue& make_tensor_v3(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  const PickleValue& type = argument(name, arguments, 6);
  const auto dtype = type.is(PickleKind::kGlobal)
      ? dtype_of_torch(without_torch(type.text))
      : std::nullopt;
  if (!dtype) {
    refuse_call(name, "a type of elements as argument 6");
  }
  return make_tensor(pickle, name, arguments, dtype);
}

// (function, class, arguments, state): a tensor with attributes.
PickleValue& make_tensor_of_type(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  const PickleValue& function = argument(name, arguments, 0);
  const PickleValue& inner = argument(name, arguments, 2);
  const auto call = calls().find(function.text);
  const bool makes_tensor = call != calls().end() &&
      (call->second == Call::kTensor || call->second == Call::kTensorV3 ||
       call->second == Call::kFirst);
  if (!function.is(PickleKind::kGlobal) || !makes_tensor ||
      !inner.is(PickleKind::kTuple)) {
    refuse_call(name, "a function that makes a tensor, and its arguments");
  }
  return call_global(pickle, function.text, inner.items);
}

// A dict of pairs, or of a dict.
PickleValue& make_dict(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  PickleValue& dict = pickle.add(PickleKind::kDict);
  for (const PickleValue* from : arguments) {
    if (from->is(PickleKind::kDict)) {
      pickle.charge(from->items.size());
      dict.items = from->items;
      continue;
    }
    if (from->is(PickleKind::kGlobal) || from->is(PickleKind::kNone)) {
      continue; // what defaultdict makes new values with
    }
    pickle.charge(2 * from->items.size());
    for (const PickleValue* pair : from->items) {
      if (pair->items.size() != 2) {
        refuse_call(name, "pairs of keys and values");
      }
      dict.items.push_back(pair->items[0]);
      dict.items.push_back(pair->items[1]);
    }
  }
  return dict;
}

PickleValue& make_sequence(
    Pickle& pickle, PickleKind kind, const Arguments& arguments) {
  PickleValue& sequence = pickle.add(kind);
  if (!arguments.empty()) {
    pickle.charge(arguments[0]->items.size());
    sequence.items = arguments[0]->items;
  }
  return sequence;
}

// encode(text, "latin1"): bytes as protocol 2 has them.
PickleValue& make_bytes(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  const PickleValue& text = argument(name, arguments, 0);
  if (!text.is(PickleKind::kString)) {
    refuse_call(name, "a text");
  }
  pickle.charge(text.text.size() / sizeof(PickleValue));
  PickleValue& bytes = pickle.add(PickleKind::kBytes);
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    auto code = static_cast<unsigned char>(text.text[i]);
    if (code >= 0xc0 && i + 1 < text.text.size()) {
      const auto next = static_cast<unsigned char>(text.text[++i]);
      code = static_cast<unsigned char>((code << 6) | (next & 0x3f));
    }
    bytes.text.push_back(static_cast<char>(code));
  }
  return bytes;
}

// scalar(dtype, bytes) of the usual types; None for others.
PickleValue& make_numpy_scalar(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  const PickleValue& type = argument(name, arguments, 0);
  const PickleValue& bytes = argument(name, arguments, 1);
  PickleValue& value = pickle.add(PickleKind::kNone);
  if (!bytes.is(PickleKind::kBytes)) {
    return value;
  }
  const std::string code = type.items.empty() ? "" : type.items[0]->text;
  if (code == "f8" && bytes.text.size() == 8) {
    value.kind = PickleKind::kFloat;
    value.number = load_number<double>(bytes.text, 0);
  } else if (code == "f4" && bytes.text.size() == 4) {
    value.kind = PickleKind::kFloat;
    value.number = load_number<float>(bytes.text, 0);
  } else if (code == "i8" && bytes.text.size() == 8) {
    value.kind = PickleKind::kInteger;
    value.integer = load_number<std::int64_t>(bytes.text, 0);
  } else if (code == "i4" && bytes.text.size() == 4) {
    value.kind = PickleKind::kInteger;
    value.integer = load_number<std::int32_t>(bytes.text, 0);
  } else if (code == "b1" && bytes.text.size() == 1) {
    value.kind = PickleKind::kBool;
    value.integer = bytes.text[0] != 0 ? 1 : 0;
  }
  return value;
}

PickleValue& make_object_of(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  PickleValue& object = pickle.add(PickleKind::kObject);
  object.text = name;
  object.items = arguments;
  return object;
}

// The first argument itself, which others refer to as well. Values are changed
// only by the machine that owns the pickle.
PickleValue& first_of(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  if (arguments.empty() && name == "torch.Size") {
    return pickle.add(PickleKind::kTuple);
  }
  return const_cast<PickleValue&>(argument(name, arguments, 0));
}

PickleValue& make_scalar(
    Pickle& pickle, std::string_view name, const Arguments& arguments) {
  if (!arguments.empty()) {
    return first_of(pickle, name, arguments);
  }
  const bool text = name == "builtins.str";
  const bool bytes = name == "builtins.bytes" || name == "builtins.bytearray";
  return pickle.add(
      text        ? PickleKind::kString
          : bytes ? PickleKind::kBytes
                  : PickleKind::kInteger);
}

} // namespace

bool is_known_global(std::string_view name) {
  return calls().count(name) > 0 || is_script_class(name) ||
      type_of_storage(name) != nullptr ||
      dtype_of_torch(without_torch(name)).has_value();
}

PickleValue& call_global(
    Pickle& pickle,
    std::string_view name,
    const std::vector<const PickleValue*>& arguments) {
  const auto found = calls().find(name);
  if (is_script_class(name)) {
    return make_object_of(pickle, name, arguments);
  }
  switch (found == calls().end() ? Call::kNone : found->second) {
    case Call::kDict:
      return make_dict(pickle, name, arguments);
    case Call::kList:
      return make_sequence(
          pickle,
          name == "builtins.list" ? PickleKind::kList : PickleKind::kTuple,
          arguments);
    case Call::kSet:
      return make_sequence(pickle, PickleKind::kSet, arguments);
    case Call::kFirst:
      return first_of(pickle, name, arguments);
    case Call::kScalar:
      return make_scalar(pickle, name, arguments);
    case Call::kBytes:
      return make_bytes(pickle, name, arguments);
    case Call::kObject:
    case Call::kNumpyType:
      return make_object_of(pickle, name, arguments);
    case Call::kNumpyScalar:
      return make_numpy_scalar(pickle, name, arguments);
    case Call::kTensor:
      return make_tensor(pickle, name, arguments, std::nullopt);
    case Call::kTensorV3:
      return make_tensor_v3(pickle, name, arguments);
    case Call::kTensorOfType:
      return make_tensor_of_type(pickle, name, arguments);
    case Call::kNone:
      break;
  }
  refuse_call(name, "none: it is a type here, not a function");
}

std::optional<DType> dtype_of_torch(std::string_view name) {
  for (const TorchType& type : kTorchTypes) {
    if (type.name == name) {
      return type.dtype;
    }
  }
  return std::nullopt;
}

std::string_view torch_name(DType dtype) {
  return torch_type_of(dtype).name;
}

std::string_view storage_class(DType dtype) {
  return torch_type_of(dtype).storage;
}

PickleValue& storage_of_id(Pickle& pickle, const PickleValue& id) {
  constexpr std::string_view kWhat = "a persistent id";
  const bool is_storage = id.is(PickleKind::kTuple) && id.items.size() >= 5 &&
      id.items[0]->is(PickleKind::kString) && id.items[0]->text == "storage" &&
      id.items[1]->is(PickleKind::kGlobal) &&
      id.items[2]->is(PickleKind::kString) &&
      id.items[2]->text.size() <= kLongestKey;
  if (!is_storage) {
    refuse_call(
        kWhat, "(\"storage\", type, key, location, number of elements)");
  }
  const std::string& global = id.items[1]->text;
  const TorchType* type = type_of_storage(global);
  if (type == nullptr && !is_untyped(global)) {
    refuse_call(kWhat, "a type of storages, not " + global);
  }
  const auto elements =
      static_cast<std::uint64_t>(integer_argument(kWhat, id.items, 4));
  PickleValue& value = pickle.add(PickleKind::kStorage);
  value.tensor = std::make_unique<PickleTensor>();
  value.tensor->dtype = type == nullptr ? DType::kU8 : type->dtype;
  value.tensor->storage = id.items[2]->text;
  if (__builtin_mul_overflow(
          elements,
          element_bytes(value.tensor->dtype),
          &value.tensor->storage_bytes)) {
    refuse_call(kWhat, "a number of elements that is possible");
  }
  return value;
}

} // namespace argosy::checkpoint
