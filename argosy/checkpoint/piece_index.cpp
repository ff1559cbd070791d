#include "argosy/checkpoint/piece_index.h"

#include <algorithm>

#include "argosy/checkpoint/boxes.h"

namespace argosy::checkpoint {

PieceIndex::PieceIndex(const TensorRecord& tensor)
    : tensor_(tensor), dim_(best_dim()) {
  for (std::uint32_t p = 0; p < tensor.pieces.size(); ++p) {
    if (tensor.pieces[p].box.numel() > 0) {
      order_.push_back(p);
    }
  }
  std::ranges::stable_sort(order_, {}, [&](auto p) { return begin_of(p); });
  std::int64_t last = 0;
  for (const std::uint32_t p : order_) {
    last = std::max(last, end_of_piece(p));
    ends_.push_back(last);
  }
}

void PieceIndex::for_each(
    const Box& box, const std::function<void(std::uint32_t)>& f) const {
  const bool scalar = box.size.empty();
  const std::int64_t begin = scalar ? 0 : box.offset[dim_];
  const std::int64_t end = scalar ? 1 : begin + box.size[dim_];
  auto i = static_cast<std::size_t>(
      std::ranges::upper_bound(ends_, begin) - ends_.begin());
  for (; i < order_.size() && begin_of(order_[i]) < end; ++i) {
    if (intersects(tensor_.pieces[order_[i]].box, box)) {
      f(order_[i]);
    }
  }
}

std::size_t PieceIndex::best_dim() const {
  std::size_t best = 0;
  std::size_t most = 0;
  std::vector<std::int64_t> offsets;
  for (std::size_t d = 0; d < tensor_.info.shape.size(); ++d) {
    offsets.clear();
    for (const PieceRecord& piece : tensor_.pieces) {
      offsets.push_back(piece.box.offset[d]);
    }
    std::ranges::sort(offsets);
    const std::size_t distinct =
        offsets.size() - std::ranges::unique(offsets).size();
    if (distinct > most) {
      most = distinct;
      best = d;
    }
  }
  return best;
}

std::int64_t PieceIndex::begin_of(std::uint32_t piece) const {
  const Shape& offset = tensor_.pieces[piece].box.offset;
  return offset.empty() ? 0 : offset[dim_];
}

std::int64_t PieceIndex::end_of_piece(std::uint32_t piece) const {
  const Shape& size = tensor_.pieces[piece].box.size;
  return size.empty() ? 1 : begin_of(piece) + size[dim_];
}

} // namespace argosy::checkpoint
