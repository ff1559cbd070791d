#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "argosy/checkpoint/import/tensor_set.h"

namespace argosy::checkpoint {

// Reads bytes of a source.
using ReadBytes =
    std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

// Elements [from, from + count) of a piece with strides, row-major to `to`.
// Visits them in the order in which they lie in the source, so that a slab of a
// transposed matrix is read by runs instead of by elements.
void gather_strided(
    const SourcePiece& piece,
    std::size_t width,
    std::int64_t from,
    std::int64_t count,
    std::byte* to,
    const ReadBytes& read);

} // namespace argosy::checkpoint
