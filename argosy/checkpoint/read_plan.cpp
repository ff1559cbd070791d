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
  std::uint32_t file = 0; // of the piece
  std::uint64_t offset = 0;
  Takers takers;
};

// Chunks [begin, end) of a segment that one rank reads.
struct SegmentPart {
  std::size_t segment = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  auto operator<=>(const SegmentPart&) const = default;
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

// Puts the reads of one rank into waves, cut at chunks where one is full. Only
// what is read for others fills a wave: it is kept until the exchange at its
// end, for which all ranks wait.
class Waves {
 public:
  Waves(ReadPlan& plan, std::uint64_t wave_bytes)
      : plan_(plan), wave_bytes_(wave_bytes), room_(wave_bytes) {}

  void add(PlannedRead rest, std::uint64_t element) {
    if (!is_for_others(rest)) {
      put(std::move(rest), 0);
      return;
    }
    while (rest.begin < rest.end) {
      std::uint64_t bytes =
          static_cast<std::uint64_t>(rest.end - rest.begin) * element;
      if (bytes <= room_) {
        put(std::move(rest), bytes);
        return;
      }
      bytes = room_ / kChunkBytes * kChunkBytes;
      if (bytes == 0) { // the wave is full
        ++wave_;
        room_ = wave_bytes_;
        continue;
      }
      PlannedRead now = rest;
      now.end = rest.begin + static_cast<std::int64_t>(bytes / element);
      rest.begin = now.end;
      put(std::move(now), bytes);
    }
  }

 private:
  static bool is_for_others(const PlannedRead& read) {
    return std::ranges::any_of(read.takers, [&](const Taker& taker) {
      return taker.rank != read.reader;
    });
  }
  void put(PlannedRead read, std::uint64_t bytes) {
    plan_.waves.resize(std::max(plan_.waves.size(), wave_ + 1));
    plan_.waves[wave_].push_back(std::move(read));
    room_ -= bytes;
  }

  ReadPlan& plan_;
  const std::uint64_t wave_bytes_;
  std::uint64_t room_;
  std::size_t wave_ = 0;
};

// The reads of one host.
class HostPlanner {
 public:
  HostPlanner(
      const Manifest& manifest,
      const std::vector<PieceIndex>& indices,
      const std::vector<std::vector<Want>>& wants,
      std::vector<int> ranks)
      : manifest_(manifest),
        indices_(indices),
        wants_(wants),
        ranks_(std::move(ranks)) {}

  // Adds the reads of each rank to the waves, in the order of files.
  void run(std::uint64_t wave_bytes, ReadPlan& plan) {
    find_segments();
    group_segments();
    deal_segments();
    for (const auto& [reader, parts] : parts_) {
      Waves waves(plan, wave_bytes);
      for (const SegmentPart& part : parts) {
        const TensorInfo& info =
            manifest_.tensors[segments_[part.segment].tensor].info;
        waves.add(read_of(reader, part), element_bytes(info.dtype));
      }
    }
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
    std::vector<std::vector<const WantedBox*>> needed(record.pieces.size());
    for (const WantedBox& wanted : boxes) {
      std::int64_t found = 0;
      indices_[tensor].for_each(*wanted.box, [&](std::uint32_t piece) {
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
            {.tensor = tensor,
             .piece = piece,
             .begin = begin,
             .end = chunk,
             .bytes = sizes.bytes(begin, chunk),
             .file = record.pieces[piece].file,
             .offset = record.pieces[piece].offset,
             .takers = {}},
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
    std::ranges::sort(segments_, [](const Segment& a, const Segment& b) {
      return std::tie(a.file, a.offset, a.begin, a.tensor, a.piece) <
          std::tie(b.file, b.offset, b.begin, b.tensor, b.piece);
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
        parts_[reader].push_back(
            {members_[lot][share.item], share.begin, share.end});
      }
    }
    for (auto& [reader, parts] : parts_) {
      std::ranges::sort(parts);
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

  PlannedRead read_of(int reader, const SegmentPart& part) const {
    const Segment& segment = segments_[part.segment];
    const ChunkSizes sizes(
        manifest_.tensors[segment.tensor], piece_of(segment));
    const auto chunk = [&](std::uint64_t in_segment) {
      return segment.begin + static_cast<std::uint32_t>(in_segment);
    };
    PlannedRead read{
        reader,
        segment.tensor,
        segment.piece,
        sizes.first_element(chunk(part.begin)),
        sizes.first_element(chunk(part.end)),
        segment.takers};
    std::ranges::stable_partition(
        read.takers, [&](const Taker& taker) { return taker.rank == reader; });
    return read;
  }

  const Manifest& manifest_;
  const std::vector<PieceIndex>& indices_; // of its tensors
  const std::vector<std::vector<Want>>& wants_;
  const std::vector<int> ranks_;
  std::vector<Segment> segments_;
  std::vector<Lot> lots_;
  std::vector<std::vector<std::size_t>> members_; // segments of each lot
  std::map<int, std::vector<SegmentPart>> parts_; // of each reader
};

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
  std::vector<PieceIndex> indices;
  for (const TensorRecord& tensor : manifest.tensors) {
    indices.emplace_back(tensor);
  }
  ReadPlan plan;
  for (const auto& [host, ranks] : ranks_of) {
    HostPlanner(manifest, indices, wants, ranks)
        .run(std::max(wave_bytes, kChunkBytes), plan);
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
