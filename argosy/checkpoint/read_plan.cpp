#include "argosy/checkpoint/read_plan.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "argosy/checkpoint/balance.h"
#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/piece_index.h"
#include "argosy/common/error.h"

// For each tensor and host: which chunks of which pieces do the wants of the
// host need? Chunks in a row that the same wants need are a segment. Segments
// are shared out to the ranks of the host, rather to those that need them, and
// cut at chunks; the shares of a reader, in the order of files, fill waves.
namespace argosy::checkpoint {

namespace {

using Taker = PlannedRead::Taker;
using Takers = std::vector<Taker>;

// A box that wants of one host have in common.
struct WantedBox {
  const Box* box = nullptr;
  Takers takers;
};

// Chunks [begin, end) of a piece.
struct Segment {
  std::uint32_t tensor = 0;
  std::uint32_t piece = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint64_t bytes = 0;
  Takers takers;
};

struct ChunkSizes {
  ChunkSizes(const TensorRecord& tensor, const PieceRecord& piece)
      : element(element_bytes(tensor.info.dtype)),
        elements(piece.box.numel()),
        chunk_elements(static_cast<std::int64_t>(kChunkBytes / element)),
        count(static_cast<std::uint32_t>(
            (elements + chunk_elements - 1) / chunk_elements)) {}

  std::int64_t first_element(std::uint32_t chunk) const {
    return std::min(chunk * chunk_elements, elements);
  }
  std::uint64_t bytes(std::uint32_t begin, std::uint32_t end) const {
    return static_cast<std::uint64_t>(
               first_element(end) - first_element(begin)) *
        element;
  }

  std::uint64_t element;
  std::int64_t elements;
  std::int64_t chunk_elements;
  std::uint32_t count;
};

void check_want(const Manifest& manifest, const Want& want, std::size_t rank) {
  ARGOSY_CHECK(
      want.tensor < manifest.tensors.size(),
      "[checkpoint.plan_reads] rank {} wants tensor {} of {}",
      rank,
      want.tensor,
      manifest.tensors.size());
  const TensorInfo& info = manifest.tensors[want.tensor].info;
  ARGOSY_CHECK(
      is_inside(want.box, info.shape),
      "[checkpoint.plan_reads] rank {} wants {} of {}, expected a box inside",
      rank,
      want.box,
      info);
}

// The reads of one host.
class HostPlanner {
 public:
  HostPlanner(
      const Manifest& manifest,
      const std::vector<std::vector<Want>>& wants,
      std::vector<int> ranks)
      : manifest_(manifest), wants_(wants), ranks_(std::move(ranks)) {}

  // The reads of each rank, in the order of files.
  std::map<int, std::vector<PlannedRead>> run() {
    find_segments();
    group_segments();
    deal_segments();
    return std::move(reads_);
  }

 private:
  const PieceRecord& piece_of(const Segment& segment) const {
    return manifest_.tensors[segment.tensor].pieces[segment.piece];
  }

  void find_segments() {
    std::vector<std::vector<Taker>> by_tensor(manifest_.tensors.size());
    for (const int rank : ranks_) {
      const auto& list = wants_[static_cast<std::size_t>(rank)];
      for (std::uint32_t w = 0; w < list.size(); ++w) {
        if (list[w].box.numel() > 0) {
          by_tensor[list[w].tensor].push_back({rank, w});
        }
      }
    }
    for (std::uint32_t t = 0; t < by_tensor.size(); ++t) {
      if (!by_tensor[t].empty()) {
        find_in_tensor(t, wanted_boxes(std::move(by_tensor[t])));
      }
    }
  }

  const Box& box_of(const Taker& taker) const {
    return wants_[static_cast<std::size_t>(taker.rank)][taker.want].box;
  }

  std::vector<WantedBox> wanted_boxes(Takers takers) const {
    std::ranges::stable_sort(takers, [&](const Taker& a, const Taker& b) {
      const Box& x = box_of(a);
      const Box& y = box_of(b);
      return std::tie(x.offset, x.size) < std::tie(y.offset, y.size);
    });
    std::vector<WantedBox> boxes;
    for (const Taker& taker : takers) {
      const Box& box = box_of(taker);
      if (boxes.empty() || *boxes.back().box != box) {
        boxes.push_back({&box, {}});
      }
      boxes.back().takers.push_back(taker);
    }
    return boxes;
  }

  void find_in_tensor(
      std::uint32_t tensor, const std::vector<WantedBox>& boxes) {
    const TensorRecord& record = manifest_.tensors[tensor];
    const PieceIndex index(record);
    std::vector<std::vector<const WantedBox*>> needed(record.pieces.size());
    for (const WantedBox& wanted : boxes) {
      std::int64_t found = 0;
      index.for_each(*wanted.box, [&](std::uint32_t piece) {
        needed[piece].push_back(&wanted);
        const Box& box = record.pieces[piece].box;
        found += count_common(box, *wanted.box);
      });
      if (found != wanted.box->numel()) {
        throw CheckpointError(
            str("[checkpoint.plan_reads] the checkpoint has ",
                found,
                " elements of ",
                *wanted.box,
                " of ",
                record.info,
                ", expected ",
                wanted.box->numel()));
      }
    }
    for (std::uint32_t piece = 0; piece < needed.size(); ++piece) {
      if (!needed[piece].empty()) {
        find_in_piece(tensor, piece, needed[piece]);
      }
    }
  }

  // Cuts a piece where the set of wants that need its chunks changes.
  void find_in_piece(
      std::uint32_t tensor,
      std::uint32_t piece,
      const std::vector<const WantedBox*>& boxes) {
    const TensorRecord& record = manifest_.tensors[tensor];
    const ChunkSizes sizes(record, record.pieces[piece]);
    std::uint32_t begin = 0;
    std::vector<bool> users = users_of(record.pieces[piece], sizes, 0, boxes);
    for (std::uint32_t chunk = 1; chunk <= sizes.count; ++chunk) {
      std::vector<bool> next;
      if (chunk < sizes.count) {
        next = users_of(record.pieces[piece], sizes, chunk, boxes);
      }
      if (next != users) {
        add_segment(
            {tensor, piece, begin, chunk, sizes.bytes(begin, chunk), {}},
            users,
            boxes);
        begin = chunk;
        users = std::move(next);
      }
    }
  }

  static std::vector<bool> users_of(
      const PieceRecord& piece,
      const ChunkSizes& sizes,
      std::uint32_t chunk,
      const std::vector<const WantedBox*>& boxes) {
    if (sizes.count == 1) {
      return std::vector<bool>(boxes.size(), true);
    }
    std::vector<bool> users;
    for (const WantedBox* wanted : boxes) {
      users.push_back(
          count_common(
              piece.box,
              sizes.first_element(chunk),
              sizes.first_element(chunk + 1),
              *wanted->box) > 0);
    }
    return users;
  }

  void add_segment(
      Segment segment,
      const std::vector<bool>& users,
      const std::vector<const WantedBox*>& boxes) {
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (users[i]) {
        segment.takers.insert(
            segment.takers.end(),
            boxes[i]->takers.begin(),
            boxes[i]->takers.end());
      }
    }
    if (segment.takers.empty()) {
      return;
    }
    std::ranges::sort(segment.takers, [](const Taker& a, const Taker& b) {
      return std::tie(a.rank, a.want) < std::tie(b.rank, b.want);
    });
    segments_.push_back(std::move(segment));
  }

  // Segments that the same ranks need are a lot, in the order of files.
  void group_segments() {
    std::ranges::sort(segments_, [&](const Segment& a, const Segment& b) {
      const PieceRecord& x = piece_of(a);
      const PieceRecord& y = piece_of(b);
      return std::tie(x.file, x.offset, a.begin, a.tensor, a.piece) <
          std::tie(y.file, y.offset, b.begin, b.tensor, b.piece);
    });
    std::map<std::vector<int>, std::size_t> known;
    std::vector<int> ranks;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      ranks.clear();
      for (const Taker& taker : segments_[s].takers) {
        if (ranks.empty() || ranks.back() != taker.rank) {
          ranks.push_back(taker.rank);
        }
      }
      const auto [at, is_new] = known.emplace(ranks, lots_.size());
      if (is_new) {
        lots_.push_back({ranks, 0});
        members_.emplace_back();
      }
      lots_[at->second].bytes += segments_[s].bytes;
      members_[at->second].push_back(s);
    }
  }

  void deal_segments() {
    std::vector<double> loads(wants_.size(), 0.0);
    std::vector<Quotas> quotas = share_out(lots_, loads);
    relieve(lots_, quotas, loads, ranks_, tolerance());
    for (std::size_t lot = 0; lot < lots_.size(); ++lot) {
      std::vector<LotItem> items;
      for (const std::size_t s : members_[lot]) {
        items.push_back({segments_[s].bytes, kChunkBytes});
      }
      for (const Share& share : deal(items, quotas[lot])) {
        const int reader = lots_[lot].ranks[share.taker];
        add_read(reader, segments_[members_[lot][share.item]], share);
      }
    }
    for (auto& [reader, reads] : reads_) {
      sort_by_place(reads);
    }
  }

  // A rank reads for others only if it saves some time.
  double tolerance() const {
    double total = 0;
    for (const Lot& lot : lots_) {
      total += static_cast<double>(lot.bytes);
    }
    const double average = total / static_cast<double>(ranks_.size());
    return std::max(average / 16, static_cast<double>(kChunkBytes));
  }

  void add_read(int reader, const Segment& segment, const Share& share) {
    const ChunkSizes sizes(
        manifest_.tensors[segment.tensor], piece_of(segment));
    const auto begin = static_cast<std::uint32_t>(share.begin);
    const auto end = static_cast<std::uint32_t>(share.end);
    PlannedRead read{
        reader,
        segment.tensor,
        segment.piece,
        sizes.first_element(segment.begin + begin),
        sizes.first_element(segment.begin + end),
        segment.takers};
    std::ranges::stable_partition(
        read.takers, [&](const Taker& taker) { return taker.rank == reader; });
    reads_[reader].push_back(std::move(read));
  }

  void sort_by_place(std::vector<PlannedRead>& reads) const {
    const auto place = [&](const PlannedRead& read) {
      const PieceRecord& piece =
          manifest_.tensors[read.tensor].pieces[read.piece];
      return std::tuple(
          piece.file, piece.offset, read.begin, read.tensor, read.piece);
    };
    std::ranges::sort(reads, {}, place);
  }

  const Manifest& manifest_;
  const std::vector<std::vector<Want>>& wants_;
  const std::vector<int> ranks_;
  std::vector<Segment> segments_;
  std::vector<Lot> lots_;
  std::vector<std::vector<std::size_t>> members_; // segments of each lot
  std::map<int, std::vector<PlannedRead>> reads_;
};

// Adds the reads of one rank to the waves, cut at chunks where one is full.
void fill_waves(
    const Manifest& manifest,
    const std::vector<PlannedRead>& reads,
    std::uint64_t wave_bytes,
    ReadPlan& plan) {
  std::size_t wave = 0;
  std::uint64_t room = wave_bytes;
  for (PlannedRead rest : reads) {
    const TensorInfo& info = manifest.tensors[rest.tensor].info;
    const std::uint64_t element = element_bytes(info.dtype);
    while (rest.begin < rest.end) {
      std::uint64_t bytes =
          static_cast<std::uint64_t>(rest.end - rest.begin) * element;
      if (bytes > room) {
        bytes = room / kChunkBytes * kChunkBytes;
      }
      if (bytes == 0) { // the wave is full
        ++wave;
        room = wave_bytes;
        continue;
      }
      PlannedRead now = rest;
      now.end = rest.begin + static_cast<std::int64_t>(bytes / element);
      rest.begin = now.end;
      room -= bytes;
      plan.waves.resize(std::max(plan.waves.size(), wave + 1));
      plan.waves[wave].push_back(std::move(now));
    }
  }
}

} // namespace

ReadPlan plan_reads(
    const Manifest& manifest,
    const std::vector<std::vector<Want>>& wants,
    const std::vector<int>& hosts,
    std::uint64_t wave_bytes) {
  ARGOSY_CHECK(
      hosts.size() == wants.size(),
      "[checkpoint.plan_reads] hosts of {} ranks, wants of {}",
      hosts.size(),
      wants.size());
  std::map<int, std::vector<int>> ranks_of; // by host
  for (std::size_t rank = 0; rank < wants.size(); ++rank) {
    ranks_of[hosts[rank]].push_back(static_cast<int>(rank));
    for (const Want& want : wants[rank]) {
      check_want(manifest, want, rank);
    }
  }
  ReadPlan plan;
  for (const auto& [host, ranks] : ranks_of) {
    for (const auto& [reader, reads] :
         HostPlanner(manifest, wants, ranks).run()) {
      fill_waves(manifest, reads, std::max(wave_bytes, kChunkBytes), plan);
    }
  }
  return plan;
}

std::ostream& operator<<(std::ostream& out, const ReadPlan& plan) {
  for (std::size_t wave = 0; wave < plan.waves.size(); ++wave) {
    out << "wave " << wave << ":\n";
    for (const PlannedRead& read : plan.waves[wave]) {
      out << "  rank " << read.reader << " reads " << read.begin << " to "
          << read.end << " of piece " << read.piece << " of tensor "
          << read.tensor << " for";
      for (const Taker& taker : read.takers) {
        out << ' ' << taker.rank << '/' << taker.want;
      }
      out << '\n';
    }
  }
  return out;
}

} // namespace argosy::checkpoint
