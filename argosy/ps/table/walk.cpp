#include "argosy/ps/table/walk.h"

namespace argosy::ps {

namespace {

std::size_t index_of(RowRef row) {
  return static_cast<std::size_t>(row.kind());
}

} // namespace

Walk::Walk(const RowStore& store) {
  for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
    ends_[kind] = store.slab(static_cast<RowKind>(kind)).end();
    if (ends_[kind] > 0) {
      skipped_[kind] =
          Pages((ends_[kind] / kWordBits + 1) * sizeof(std::uint64_t));
    }
  }
}

std::uint64_t& Walk::word(RowRef row) const {
  auto* const words =
      reinterpret_cast<std::uint64_t*>(skipped_[index_of(row)].data());
  return words[row.index() / kWordBits];
}

bool Walk::skipped(RowRef row) const {
  return word(row) >> (row.index() % kWordBits) & 1;
}

bool Walk::ahead(RowRef row) const {
  return row.bits >= at_.bits && row.index() < ends_[index_of(row)] &&
      !skipped(row);
}

void Walk::skip(RowRef row) {
  if (ahead(row)) {
    word(row) |= 1ull << (row.index() % kWordBits);
  }
}

RowRef Walk::next(const RowStore& store) {
  while (index_of(at_) < kRowKinds) {
    if (at_.index() >= ends_[index_of(at_)]) {
      at_ = {(at_.bits | 0x3fffffff) + 1};
      continue;
    }
    const RowRef row = at_;
    const Slab& slab = store.slab(row.kind());
    if (row.index() % kWordBits == 0 && slab.live_bits(row.index()) == 0) {
      at_.bits += kWordBits;
      continue;
    }
    ++at_.bits;
    if (!skipped(row) && slab.live(row.index())) {
      return row;
    }
  }
  return {};
}

} // namespace argosy::ps
