#include "argosy/training/held_part.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/tensor.h"
#include "argosy/torch_hooks/tensor_tag.h"
#include "argosy/world/world.h"

namespace argosy::training {

namespace {

struct BoxTag {
  dtensor::Shape whole;
  dtensor::Box box;
};

// A parameter and its piece know one another: weakly, or neither would ever be
// freed.
using WeakTensor =
    c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

at::Tensor locked(const WeakTensor& weak) {
  auto impl = weak.lock();
  return impl.defined() ? at::Tensor(std::move(impl)) : at::Tensor();
}

WeakTensor weak_of(const at::Tensor& tensor) {
  return WeakTensor(tensor.getIntrusivePtr());
}

// Of a tensor that an optimizer holds instead of a parameter.
struct PieceTag {
  WeakTensor parameter;
  std::optional<MemoryRange> range; // none: `box`
  dtensor::Box box;                 // of a DTensor
};

struct FirstNameTag {
  std::string name;
};

// Of a parameter whose values are elsewhere.
struct ElsewhereTag {
  WeakTensor piece;
};

// Dims from the one with the largest stride to the one with the smallest.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> dims(tensor.dim());
  std::iota(dims.begin(), dims.end(), 0);
  std::ranges::stable_sort(dims, [&](std::int64_t a, std::int64_t b) {
    return tensor.stride(a) > tensor.stride(b);
  });
  return dims;
}

dtensor::Box box_of(const dtensor::Parts& parts, const dtensor::Shape& whole) {
  for (const Placement& placement : parts.placements) {
    ARGOSY_CHECK(
        !placement.is_partial(),
        "[training.held_part] a DTensor of shape {} is a summand ({}), "
        "expected "
        "Shard and Replicate: reshard() it first",
        at::IntArrayRef(whole),
        parts.placements);
  }
  return dtensor::local_box(
      whole,
      DistAttr(parts.mesh->mesh(), parts.placements),
      require_world("training.held_part")->rank());
}

// The box of a parameter, without its values.
HeldPart described(const at::Tensor& tensor) {
  const dtensor::Shape sizes = tensor.sizes().vec();
  if (const dtensor::Parts* parts = dtensor::parts_of(tensor)) {
    return {.whole = sizes, .box = box_of(*parts, sizes)};
  }
  if (const auto* tag = torch_hooks::find_tag<BoxTag>(tensor)) {
    return {.whole = tag->whole, .box = tag->box};
  }
  return {.whole = sizes, .box = dtensor::whole(sizes)};
}

HeldPart piece_of(const PieceTag& tag, const at::Tensor& piece) {
  const at::Tensor parameter = locked(tag.parameter);
  ARGOSY_CHECK(
      parameter.defined(),
      "[training.held_part] the parameter of a piece of {} elements is gone, "
      "expected the model to live as long as its optimizer",
      piece.numel());
  HeldPart part = described(parameter);
  if (tag.range) {
    part.range = tag.range;
    part.order = memory_order(parameter);
  } else {
    part.box = tag.box;
  }
  part.values = piece.detach();
  return part;
}

} // namespace

HeldPart held_part(const at::Tensor& tensor) {
  if (const auto* tag = torch_hooks::find_tag<PieceTag>(tensor)) {
    return piece_of(*tag, tensor);
  }
  if (const auto* tag = torch_hooks::find_tag<ElsewhereTag>(tensor)) {
    const at::Tensor piece = locked(tag->piece);
    return piece.defined() ? held_part(piece) : described(tensor);
  }
  HeldPart part = described(tensor);
  if (const dtensor::Parts* parts = dtensor::parts_of(tensor)) {
    part.values = parts->mesh->is_member() ? parts->local : at::Tensor();
  } else {
    part.values = tensor.detach();
  }
  return part;
}

void set_held_box(
    const at::Tensor& tensor, dtensor::Shape whole, dtensor::Box box) {
  ARGOSY_ASSERT(tensor.sizes() == at::IntArrayRef(box.size));
  torch_hooks::set_tag(tensor, BoxTag{std::move(whole), std::move(box)});
}

void set_piece_of(
    const at::Tensor& piece, const at::Tensor& parameter, MemoryRange range) {
  ARGOSY_ASSERT(piece.numel() == range.count);
  torch_hooks::set_tag(piece, PieceTag{weak_of(parameter), range, {}});
}

void set_shard_of(
    const at::Tensor& shard, const at::Tensor& parameter, dtensor::Box box) {
  torch_hooks::set_tag(
      shard, PieceTag{weak_of(parameter), std::nullopt, std::move(box)});
}

at::Tensor parameter_of(const at::Tensor& tensor) {
  const auto* tag = torch_hooks::find_tag<PieceTag>(tensor);
  return tag != nullptr ? locked(tag->parameter) : tensor;
}

void set_values_in(const at::Tensor& parameter, const at::Tensor& piece) {
  torch_hooks::set_tag(parameter, ElsewhereTag{weak_of(piece)});
}

void set_first_name(const at::Tensor& parameter, std::string name) {
  torch_hooks::set_tag(parameter, FirstNameTag{std::move(name)});
}

std::optional<std::string> first_name(const at::Tensor& parameter) {
  const auto* tag = torch_hooks::find_tag<FirstNameTag>(parameter);
  return tag != nullptr ? std::optional(tag->name) : std::nullopt;
}

} // namespace argosy::training
