#pragma once

#include <array>
#include <cstdint>

#include "argosy/ps/table/pages.h"
#include "argosy/ps/table/row_store.h"

namespace argosy::ps {

// A round over the rows that exist when it begins, a few at a time, while rows
// come, move and go. Holds a bit for each row.
class Walk {
 public:
  explicit Walk(const RowStore& store);

  // The next row; none when the round is done.
  RowRef next(const RowStore& store);

  // Whether a row is still to be visited.
  bool ahead(RowRef row) const;

  // The row will not be visited: it was handled, or its place was given to a
  // new row, which is not part of the round.
  void skip(RowRef row);

 private:
  static constexpr std::uint32_t kWordBits = 64;

  bool skipped(RowRef row) const;
  std::uint64_t& word(RowRef row) const;

  std::array<std::uint32_t, kRowKinds> ends_;
  std::array<Pages, kRowKinds> skipped_;
  RowRef at_ = RowRef::of(RowKind::Full, 0); // rows before are done
};

} // namespace argosy::ps
