#include "argosy/ps/table/row_store.h"

#include "argosy/ps/table/page_feeder.h"

namespace argosy::ps {

namespace {

std::size_t words_of(int count) {
  return static_cast<std::size_t>(count);
}

} // namespace

RowStore::RowStore(const RowLayout& layout)
    : RowStore(layout, std::make_shared<PageFeeder>()) {}

RowStore::RowStore(
    const RowLayout& layout, const std::shared_ptr<PageFeeder>& feeder)
    : index_(feeder),
      slabs_{
          Slab(words_of(layout.full_words), feeder),
          Slab(words_of(layout.base_words), feeder),
          Slab(words_of(layout.pending_words), feeder)} {}

RowRef RowStore::insert(std::uint64_t key, RowKind kind) {
  const RowRef row = RowRef::of(kind, slab(kind).allocate(key));
  index_.insert(KeyIndex::hash(key), row.bits);
  ++changes_;
  return row;
}

RowRef RowStore::change_kind(RowRef row, RowKind kind) {
  const std::uint64_t key = this->key(row);
  const RowRef moved = RowRef::of(kind, slab(kind).allocate(key));
  index_.replace(KeyIndex::hash(key), row.bits, moved.bits);
  slab(row.kind()).free(row.index());
  ++changes_;
  return moved;
}

void RowStore::erase(RowRef row) {
  index_.erase(KeyIndex::hash(key(row)), row.bits);
  slab(row.kind()).free(row.index());
  ++changes_;
}

std::size_t RowStore::memory_bytes() const {
  std::size_t bytes = index_.memory_bytes();
  for (const Slab& slab : slabs_) {
    bytes += slab.memory_bytes();
  }
  return bytes;
}

} // namespace argosy::ps
