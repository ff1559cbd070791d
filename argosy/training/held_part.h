#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "argosy/dtensor/layout/layout.h"

// Which elements of a whole tensor this rank has, and where. Layers and
// wrappers that divide tensors over ranks say so here; checkpoints ask.
namespace argosy::training {

// A range of a tensor's elements, in the order in which they lie in memory.
struct MemoryRange {
  std::int64_t from = 0;
  std::int64_t count = 0;

  bool operator==(const MemoryRange&) const = default;
};

struct HeldPart {
  dtensor::Shape whole; // shape of the whole tensor
  dtensor::Box box;     // the box of it that the tensor is
  // Of the box, the elements that this rank has; none: all. They are in the
  // order of dims `order`, from the outermost to the innermost.
  std::optional<MemoryRange> range;
  std::vector<std::int64_t> order;
  // With the sizes of the box, or one-dimensional if there is a range.
  // Undefined: this rank has nothing.
  at::Tensor values;
};

// Of a parameter, a buffer, or what an optimizer holds instead of a parameter.
// A tensor that nobody has described is whole, and a DTensor describes itself.
// Throws InvalidArgument for a DTensor that is a summand (Partial).
HeldPart held_part(const at::Tensor& tensor);

// Says that `tensor` is this box of a whole tensor, as in tensor parallel
// layers. `tensor` must be a leaf of the sizes of the box.
void set_held_box(
    const at::Tensor& tensor, dtensor::Shape whole, dtensor::Box box);

// Says that `piece` (one-dimensional) stands for a range of `parameter`, as the
// optimizer's tensors of ZeRO do.
void set_piece_of(
    const at::Tensor& piece, const at::Tensor& parameter, MemoryRange range);

// Says that `shard` is this box of the DTensor `parameter`.
void set_shard_of(
    const at::Tensor& shard, const at::Tensor& parameter, dtensor::Box box);

// What set_piece_of() or set_shard_of() said; otherwise the tensor itself.
at::Tensor parameter_of(const at::Tensor& tensor);

// Says that the values of `parameter` are in `piece` alone, because the
// parameter has no memory between steps. An undefined piece: this rank has no
// values.
void set_values_in(const at::Tensor& parameter, const at::Tensor& piece);

// Says that a parameter is a copy of one that has this name where it comes
// first, as weights that stages of a pipeline share. Checkpoints have it once.
void set_first_name(const at::Tensor& parameter, std::string name);
// None if nobody said so.
std::optional<std::string> first_name(const at::Tensor& parameter);

} // namespace argosy::training
