#include "argosy/dtensor/dispatch/frame.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "argosy/common/error.h"
#include "argosy/dtensor/deferred/tape.h"
#include "argosy/dtensor/tensor/plain_gradient.h"

namespace argosy::dtensor {

namespace {

using ArgKind = OpInfo::ArgKind;

// What the key has for a tensor that is missing, plain or distributed, in the
// last bits of its first word. The word also tells how many words follow, so
// that keys of different calls differ.
constexpr std::uint64_t kNothing = 1;
constexpr std::uint64_t kPlain = 2;
constexpr std::uint64_t kDTensor = 3;
// Stands for None and the like. It is the least 64-bit integer, which nobody
// passes as a dim, size or index; -1 would not do.
constexpr std::uint64_t kNoInteger = std::uint64_t{1} << 63;

std::uint64_t word(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

} // namespace

// Runs for every op on DTensors, before the decision is looked up, so one pass
// over the arguments collects the inputs, checks them and builds the key.
// Whatever a rule may look at must be in the key: two calls with equal keys
// share a decision.
Frame::Frame(const RuledOp& info, const c10::IValue* arguments)
    : info_(info), arguments_(arguments) {
  key_.add(reinterpret_cast<std::uintptr_t>(&info));
  for (std::size_t i = 0; i < info.args.size(); ++i) {
    add_argument(i);
  }
  ARGOSY_CHECK(mesh_ != nullptr, "[dtensor.{}] there is no DTensor", info.name);
  key_.add(mesh().decisions().number());
}

void Frame::add_argument(std::size_t index) {
  const c10::IValue& value = arguments_[index];
  switch (info_.args[index].kind) {
    case ArgKind::Tensor:
      if (value.isTensor()) {
        add_tensor(value.toTensor(), index);
      } else {
        key_.add(kNothing);
      }
      return;
    case ArgKind::Tensors:
      if (value.isNone()) {
        key_.add(kNothing);
        return;
      }
      key_.add(value.toListRef().size());
      for (const c10::IValue& each : value.toListRef()) {
        if (each.isTensor()) {
          add_tensor(each.toTensor(), index);
        } else {
          key_.add(kNothing);
        }
      }
      return;
    case ArgKind::Key:
      add_key(value);
      return;
    case ArgKind::Other:
      return;
  }
}

void Frame::add_tensor(const at::Tensor& tensor, std::size_t index) {
  if (!tensor.defined()) {
    key_.add(kNothing);
    return;
  }
  const Input input{&tensor, parts_of(tensor), index};
  ARGOSY_CHECK(
      input.parts != nullptr || deferred_of(tensor) == nullptr,
      "[dtensor.{}] argument {} was made under DeferredInit and has no memory "
      "yet; shard it first, with shard_layer() or shard_tensor_()",
      info_.name,
      info_.args[index].name);
  if (info_.args[index].is_written) {
    check_written(input);
  }
  if (input.parts != nullptr) {
    meet(input.parts);
  } else {
    record_plain(tensor);
  }
  add_tensor_key(input);
  // An `out` is part of the key, but the op does not read it, so its placement
  // need not suit the strategy.
  if (!info_.args[index].is_out) {
    inputs_.push_back(input);
  }
}

void Frame::add_tensor_key(const Input& input) {
  const at::IntArrayRef sizes = input.tensor->sizes();
  // The strides of results follow from those of the inputs.
  const bool has_strides = info_.makes_views || !input.tensor->is_contiguous();
  std::uint64_t* words =
      key_.extend(2 + sizes.size() + (has_strides ? 1 + sizes.size() : 0));
  const auto dtype = static_cast<std::uint64_t>(input.tensor->scalar_type());
  *words = std::uint64_t{has_strides} << 8 | dtype << 16 | sizes.size() << 32;
  if (input.parts != nullptr) {
    // choose() avoids moving pinned inputs, so the decision depends on them.
    *words++ |= kDTensor | std::uint64_t{input.parts->pinned} << 24;
    *words++ = input.parts->placements.code();
  } else {
    *words++ |= kPlain;
    *words++ = 0;
  }
  words = std::copy(sizes.begin(), sizes.end(), words);
  if (has_strides) {
    const at::IntArrayRef strides = input.tensor->strides();
    *words++ = word(input.tensor->storage_offset());
    std::copy(strides.begin(), strides.end(), words);
  }
}

void Frame::check_written(const Input& input) const {
  ARGOSY_CHECK(
      input.parts != nullptr,
      "[dtensor.{}] argument {} is a plain tensor, which cannot hold what "
      "comes of a DTensor; make it one with shard_tensor(), or use the op that "
      "returns a new tensor",
      info_.name,
      info_.args[input.arg].name);
  ARGOSY_CHECK(
      !input.parts->is_copied_view,
      "[dtensor.{}] argument {} is a view whose base is sharded in another "
      "way, so writing to it would not change the base; use the op that "
      "returns a new tensor, or clone() the view",
      info_.name,
      info_.args[input.arg].name);
}

// Comparing addresses is enough: mesh_state() keeps one state for each mesh.
void Frame::meet(Parts* parts) {
  if (mesh_ == nullptr) {
    mesh_ = &parts->mesh;
    return;
  }
  ARGOSY_CHECK(
      parts->mesh == *mesh_,
      "[dtensor.{}] tensors on two meshes, {} and {}; bring them to one with "
      "reshard()",
      info_.name,
      (*mesh_)->mesh(),
      parts->mesh->mesh());
}

void Frame::add_key(const c10::IValue& value) {
  if (value.isInt()) {
    key_.add(word(value.toInt()));
  } else if (value.isDouble()) {
    key_.add(std::bit_cast<std::uint64_t>(value.toDouble()));
  } else if (value.isBool()) {
    key_.add(value.toBool() ? 1 : 0);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key_.add(list.size());
    for (const c10::IValue& each : list) {
      add_key(each);
    }
  } else if (value.isString()) {
    key_.add(std::hash<std::string>{}(value.toStringRef()));
  } else {
    key_.add(kNoInteger);
  }
}

Placements Frame::placements(const Input& input) const {
  if (input.parts != nullptr) {
    return input.parts->placements;
  }
  return {static_cast<std::size_t>(mesh().mesh().ndim()), Replicate()};
}

} // namespace argosy::dtensor
