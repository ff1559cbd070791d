#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "argosy/checkpoint/manifest.h"

namespace argosy::checkpoint {

// Finds the pieces of a tensor that a box intersects, by their place along the
// dim in which the pieces differ most. The tensor must outlive it.
class PieceIndex {
 public:
  explicit PieceIndex(const TensorRecord& tensor);

  // Calls `f` with the index of each piece that shares elements with `box`.
  void for_each(
      const Box& box, const std::function<void(std::uint32_t)>& f) const;

 private:
  std::size_t best_dim() const;
  std::int64_t begin_of(std::uint32_t piece) const;
  std::int64_t end_of_piece(std::uint32_t piece) const;

  const TensorRecord& tensor_;
  std::size_t dim_ = 0;
  std::vector<std::uint32_t> order_; // by begin_of()
  std::vector<std::int64_t> ends_;   // the greatest up to each of order_
};

} // namespace argosy::checkpoint
