#include "argosy/checkpoint/write_plan.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "argosy/checkpoint/balance.h"
#include "argosy/checkpoint/boxes.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

struct Holder {
  int rank = 0;
  std::uint32_t holding = 0;
};

using Holders = std::vector<Holder>; // by rank, ascending; each once

// A box that is the same to all that hold any of it.
struct WriteCell {
  std::uint32_t tensor = 0;
  Box box;
  Holders holders;
};

struct HeldBox {
  const Holding* holding = nullptr;
  Holder holder;
};

void check_holding(
    const std::vector<TensorInfo>& tensors, const Holding& holding, int rank) {
  ARGOSY_CHECK(
      holding.tensor < tensors.size(),
      "[checkpoint.plan_writes] rank {} holds tensor {} of {}",
      rank,
      holding.tensor,
      tensors.size());
  const TensorInfo& info = tensors[holding.tensor];
  ARGOSY_CHECK(
      is_inside(holding.box, info.shape),
      "[checkpoint.plan_writes] rank {} holds {} of {}, expected a box inside",
      rank,
      holding.box,
      info);
}

std::vector<std::vector<HeldBox>> by_tensor(
    const std::vector<TensorInfo>& tensors,
    const std::vector<std::vector<Holding>>& holdings) {
  std::vector<std::vector<HeldBox>> held(tensors.size());
  for (std::size_t r = 0; r < holdings.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (std::uint32_t h = 0; h < holdings[r].size(); ++h) {
      const Holding& holding = holdings[r][h];
      check_holding(tensors, holding, rank);
      if (holding.box.numel() > 0 ||
          dtensor::numel(tensors[holding.tensor].shape) == 0) {
        held[holding.tensor].push_back({&holding, {rank, h}});
      }
    }
  }
  return held;
}

// Both lists as one; of two holdings of a rank the first.
Holders merged(const Holders& a, const Holders& b) {
  Holders all;
  std::ranges::merge(a, b, std::back_inserter(all), [](auto& x, auto& y) {
    return std::tie(x.rank, x.holding) < std::tie(y.rank, y.holding);
  });
  const auto rest = std::ranges::unique(all, {}, &Holder::rank);
  all.erase(rest.begin(), rest.end());
  return all;
}

// Equal boxes become one cell with all who hold it.
std::vector<WriteCell> distinct_boxes(std::vector<HeldBox> held) {
  std::ranges::stable_sort(held, [](const HeldBox& a, const HeldBox& b) {
    const Box& x = a.holding->box;
    const Box& y = b.holding->box;
    return std::tie(x.offset, x.size) < std::tie(y.offset, y.size);
  });
  std::vector<WriteCell> cells;
  for (const HeldBox& each : held) {
    if (cells.empty() || cells.back().box != each.holding->box) {
      cells.push_back({each.holding->tensor, each.holding->box, {}});
    }
    Holders& holders = cells.back().holders;
    if (holders.empty() || holders.back().rank != each.holder.rank) {
      holders.push_back(each.holder);
    }
  }
  return cells;
}

// Adds a cell to disjoint ones, which stay disjoint: what it shares with others
// becomes cells of the holders of both.
void add_cell(std::vector<WriteCell>& disjoint, const WriteCell& added) {
  std::vector<WriteCell> result;
  std::vector<Box> rest = {added.box};
  for (WriteCell& cell : disjoint) {
    if (!intersects(cell.box, added.box)) {
      result.push_back(std::move(cell));
      continue;
    }
    for (Box& part : subtract(cell.box, added.box)) {
      result.push_back({cell.tensor, std::move(part), cell.holders});
    }
    std::vector<Box> left;
    for (const Box& part : rest) {
      std::ranges::move(subtract(part, cell.box), std::back_inserter(left));
    }
    rest = std::move(left);
    result.push_back(
        {cell.tensor,
         intersection(cell.box, added.box),
         merged(cell.holders, added.holders)});
  }
  for (Box& part : rest) {
    result.push_back({added.tensor, std::move(part), added.holders});
  }
  disjoint = std::move(result);
}

// The disjoint boxes that make up a tensor. Throws if some elements are in
// none.
std::vector<WriteCell> cells_of(
    const TensorInfo& info, std::vector<HeldBox> held) {
  const std::int64_t all = dtensor::numel(info.shape);
  std::vector<WriteCell> cells = distinct_boxes(std::move(held));
  if (all == 0) {
    // One entry in one file, so that the files alone have the tensor.
    cells.resize(std::min<std::size_t>(cells.size(), 1));
    for (WriteCell& cell : cells) {
      cell.box = dtensor::whole(info.shape);
    }
    return cells;
  }
  std::vector<Box> boxes;
  for (const WriteCell& cell : cells) {
    boxes.push_back(cell.box);
  }
  if (overlapping(info.shape, boxes)) {
    std::vector<WriteCell> disjoint;
    for (const WriteCell& cell : cells) {
      add_cell(disjoint, cell);
    }
    cells = std::move(disjoint);
  }
  std::int64_t found = 0;
  for (const WriteCell& cell : cells) {
    found += cell.box.numel();
  }
  if (found != all) {
    std::string missing;
    for (const Box& box : cover_of(info.shape, boxes).missing) {
      missing += str(missing.empty() ? "" : ", ", box);
    }
    throw CheckpointError(
        str("[checkpoint.plan_writes] no rank holds ",
            missing,
            " of ",
            info,
            ", expected that the ranks together hold all of it"));
  }
  return cells;
}

// Cells that the same ranks hold.
struct CellGroup {
  Lot lot;
  std::vector<WriteCell> cells;
};

// The dim that a box is cut along: with the dims before it, it stays
// contiguous.
std::size_t cut_dim(const Box& box) {
  std::size_t dim = 0;
  while (dim + 1 < box.size.size() && box.size[dim] == 1) {
    ++dim;
  }
  return dim;
}

class WritePlanner {
 public:
  WritePlanner(
      const std::vector<TensorInfo>& tensors,
      const std::vector<std::vector<Holding>>& holdings,
      std::uint64_t least_bytes)
      : tensors_(tensors),
        holdings_(holdings),
        least_bytes_(std::max<std::uint64_t>(least_bytes, 1)),
        loads_(holdings.size(), 0.0),
        plan_(holdings.size()) {}

  WritePlan run() {
    auto held = by_tensor(tensors_, holdings_);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      for (WriteCell& cell : cells_of(tensors_[t], std::move(held[t]))) {
        place(std::move(cell));
      }
    }
    share_replicas();
    for (std::vector<PlannedWrite>& writes : plan_) {
      std::ranges::sort(writes, [](const auto& a, const auto& b) {
        return std::tie(a.tensor, a.box.offset) <
            std::tie(b.tensor, b.box.offset);
      });
    }
    return std::move(plan_);
  }

 private:
  std::uint64_t bytes_in(const WriteCell& cell) const {
    return static_cast<std::uint64_t>(cell.box.numel()) *
        element_bytes(tensors_[cell.tensor].dtype);
  }

  void write(const WriteCell& cell, const Holder& holder, Box box) {
    plan_[static_cast<std::size_t>(holder.rank)].push_back(
        {cell.tensor, holder.holding, std::move(box)});
  }

  bool is_from_first(const WriteCell& cell) const {
    return std::ranges::any_of(cell.holders, [&](const Holder& holder) {
      const auto rank = static_cast<std::size_t>(holder.rank);
      return holdings_[rank][holder.holding].from_first;
    });
  }

  // Gives the cell to the only rank that may write it, or keeps it for later.
  void place(WriteCell cell) {
    const std::uint64_t bytes = bytes_in(cell);
    const Holder& first = cell.holders.front();
    if (cell.holders.size() == 1 || bytes == 0 || is_from_first(cell)) {
      loads_[static_cast<std::size_t>(first.rank)] +=
          static_cast<double>(bytes);
      write(cell, first, cell.box);
      return;
    }
    std::vector<int> ranks;
    for (const Holder& holder : cell.holders) {
      ranks.push_back(holder.rank);
    }
    CellGroup& group = groups_[ranks];
    group.lot.ranks = std::move(ranks);
    group.lot.bytes += bytes;
    group.cells.push_back(std::move(cell));
  }

  void share_replicas() {
    std::vector<Lot> lots;
    for (const auto& [ranks, group] : groups_) {
      lots.push_back(group.lot);
    }
    const std::vector<Quotas> quotas = share_out(lots, loads_);
    std::size_t i = 0;
    for (const auto& [ranks, group] : groups_) {
      deal_cells(group, quotas[i++]);
    }
  }

  LotItem item_of(const WriteCell& cell) const {
    const std::uint64_t bytes = bytes_in(cell);
    if (cell.box.size.empty() || bytes < least_bytes_) {
      return {bytes, bytes};
    }
    const auto rows =
        static_cast<std::uint64_t>(cell.box.size[cut_dim(cell.box)]);
    const std::uint64_t row = bytes / rows;
    return {bytes, (least_bytes_ + row - 1) / row * row};
  }

  void deal_cells(const CellGroup& group, const Quotas& quotas) {
    std::vector<LotItem> items;
    for (const WriteCell& cell : group.cells) {
      items.push_back(item_of(cell));
    }
    for (const Share& share : deal(items, quotas)) {
      const WriteCell& cell = group.cells[share.item];
      write(
          cell,
          cell.holders[share.taker],
          part_of(cell.box, items[share.item], share));
    }
  }

  static Box part_of(Box box, const LotItem& item, const Share& share) {
    if (share.begin == 0 && share.end == item.num_grains()) {
      return box;
    }
    const std::size_t dim = cut_dim(box);
    const std::int64_t rows = box.size[dim];
    const auto grain_rows = static_cast<std::int64_t>(
        item.grain / (item.bytes / static_cast<std::uint64_t>(rows)));
    const auto begin = static_cast<std::int64_t>(share.begin) * grain_rows;
    const auto end =
        std::min(static_cast<std::int64_t>(share.end) * grain_rows, rows);
    box.offset[dim] += begin;
    box.size[dim] = end - begin;
    return box;
  }

  const std::vector<TensorInfo>& tensors_;
  const std::vector<std::vector<Holding>>& holdings_;
  const std::uint64_t least_bytes_;
  std::vector<double> loads_; // bytes, by rank
  std::map<std::vector<int>, CellGroup> groups_;
  WritePlan plan_;
};

} // namespace

WritePlan plan_writes(
    const std::vector<TensorInfo>& tensors,
    const std::vector<std::vector<Holding>>& holdings,
    std::uint64_t least_bytes) {
  return WritePlanner(tensors, holdings, least_bytes).run();
}

std::uint64_t bytes_of(
    const std::vector<TensorInfo>& tensors,
    const std::vector<PlannedWrite>& writes) {
  std::uint64_t bytes = 0;
  for (const PlannedWrite& write : writes) {
    bytes += static_cast<std::uint64_t>(write.box.numel()) *
        element_bytes(tensors.at(write.tensor).dtype);
  }
  return bytes;
}

std::ostream& operator<<(std::ostream& out, const WritePlan& plan) {
  for (std::size_t rank = 0; rank < plan.size(); ++rank) {
    out << "rank " << rank << ":";
    for (const PlannedWrite& write : plan[rank]) {
      out << ' ' << write.tensor << write.box;
    }
    out << '\n';
  }
  return out;
}

} // namespace argosy::checkpoint
