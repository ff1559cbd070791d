#include "argosy/checkpoint/state_part.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

training::HeldPart whole_part(const at::Tensor& tensor) {
  const Shape shape = tensor.sizes().vec();
  return {
      .whole = shape, .box = dtensor::whole(shape), .values = tensor.detach()};
}

std::string name_of_rank(int rank, const std::string& name) {
  return str("rank/", rank, '/', name);
}

} // namespace

void Contents::tensor(
    const std::string& name,
    const training::HeldPart& part,
    bool from_first,
    bool frozen) {
  if (!part.values.defined()) {
    return;
  }
  slots_.push_back(
      {.info = {name, dtype_of(part.values.scalar_type(), name), part.whole},
       .pieces = pieces_of(part),
       .from_first = from_first,
       .frozen = frozen});
}

void Contents::tensor_of_rank(
    const std::string& name, const at::Tensor& tensor) {
  this->tensor(name_of_rank(rank_, name), whole_part(tensor));
}

void Contents::bytes(const std::string& name, std::string_view bytes) {
  const at::Tensor copy =
      at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(copy.data_ptr(), bytes.data(), bytes.size());
  tensor(name, whole_part(copy), true);
}

void Contents::bytes_of_rank(const std::string& name, std::string_view bytes) {
  this->bytes(name_of_rank(rank_, name), bytes);
}

void Contents::value(const std::string& name, nlohmann::json value) {
  values_[name] = std::move(value);
}

void Request::alias(const std::string& name, const std::string& other) {
  aliases_[name] = other;
}

std::string Request::other_name(const std::string& name) const {
  const auto found = aliases_.find(name);
  return found == aliases_.end() ? "" : found->second;
}

bool Request::is_wanted(const std::string& name) const {
  return selection_.wanted == nullptr || selection_.wanted(name);
}

// Under the name that the checkpoint has for it.
const TensorRecord* Request::find_named(const std::string& name) {
  const std::string stored =
      selection_.rename != nullptr ? selection_.rename(name) : name;
  const TensorRecord* found = manifest_.find(stored);
  if (found != nullptr) {
    asked_[stored] = true;
  }
  return found;
}

const TensorRecord* Request::lookup(const std::string& name) {
  if (!is_wanted(name)) {
    return nullptr;
  }
  if (const TensorRecord* found = find_named(name)) {
    return found;
  }
  const auto alias = aliases_.find(name);
  return alias == aliases_.end() ? nullptr : find_named(alias->second);
}

const TensorRecord* Request::find(const std::string& name) {
  return lookup(name);
}

void Request::missing(const std::string& name) {
  if (is_wanted(name)) {
    missing_.push_back(name);
  }
}

void Request::check_type(
    const TensorRecord& found, const training::HeldPart& part) const {
  if (selection_.cast || !part.values.defined()) {
    return;
  }
  const DType own = dtype_of(part.values.scalar_type(), found.info.name);
  if (own != found.info.dtype) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} has the type {} in the checkpoint, expected {}; "
        "LoadOptions::cast converts",
        found.info.name,
        to_string(found.info.dtype),
        to_string(own)));
  }
}

bool Request::tensor(
    const std::string& name, const training::HeldPart& part, bool in_place) {
  const TensorRecord* found = lookup(name);
  if (found == nullptr) {
    missing(name);
    return false;
  }
  check_type(*found, part);
  if (found->info.shape != part.whole) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} has the shape {} in the checkpoint, expected {}",
        name,
        at::IntArrayRef(found->info.shape),
        at::IntArrayRef(part.whole)));
  }
  slots_.push_back(
      {.tensor = static_cast<std::size_t>(found - manifest_.tensors.data()),
       .pieces = pieces_of(part),
       .in_place = in_place});
  return true;
}

void Request::tensors_of_rank(
    const std::string& name,
    std::function<void(const std::map<std::string, at::Tensor>&)> take) {
  const std::string prefix = name_of_rank(rank_, name) + '/';
  std::map<std::string, at::Tensor> found;
  for (const TensorRecord& record : manifest_.tensors) {
    const std::string& its_name = record.info.name;
    if (its_name.starts_with(prefix) && is_wanted(its_name)) {
      const at::Tensor values = at::empty(
          record.info.shape, scalar_type_of(record.info.dtype, its_name));
      tensor(its_name, whole_part(values), false);
      found[its_name.substr(prefix.size())] = values;
    }
  }
  if (!found.empty()) {
    after([found, take = std::move(take)] { take(found); });
  }
}

const nlohmann::json* Request::value(const std::string& name) {
  const auto found = manifest_.values.find(name);
  if (found == manifest_.values.end() || !is_wanted(name)) {
    missing(name);
    return nullptr;
  }
  return &*found;
}

bool Request::bytes(
    const std::string& name, std::function<void(const std::string&)> take) {
  const TensorRecord* found = lookup(name);
  if (found == nullptr) {
    missing(name);
    return false;
  }
  const at::Tensor into = at::empty(found->info.shape, at::kByte);
  if (found->info.dtype != DType::kU8) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} has the type {}, expected bytes (U8)",
        name,
        to_string(found->info.dtype)));
  }
  tensor(name, whole_part(into), false);
  after([into, take = std::move(take)] {
    take(std::string(
        static_cast<const char*>(into.data_ptr()),
        static_cast<std::size_t>(into.numel())));
  });
  return true;
}

void Request::after(std::function<void()> action) {
  actions_.push_back(std::move(action));
}

std::vector<std::string> Request::left_over() const {
  std::vector<std::string> names;
  for (const TensorRecord& record : manifest_.tensors) {
    const std::string& name = record.info.name;
    if (!is_of_rank(name) && asked_.count(name) == 0 && is_wanted(name)) {
      names.push_back(name);
    }
  }
  return names;
}

} // namespace argosy::checkpoint
