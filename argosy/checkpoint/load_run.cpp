#include "argosy/checkpoint/load_run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "argosy/checkpoint/boxes.h"
#include "argosy/common/error.h"
#include "argosy/torch_hooks/backward.h"

namespace argosy::checkpoint {

namespace {

std::vector<std::byte*> begins_of(
    const at::Tensor& buffer, const std::vector<std::int64_t>& parts) {
  std::vector<std::byte*> begins;
  auto* next = static_cast<std::byte*>(buffer.data_ptr());
  for (const std::int64_t part : parts) {
    begins.push_back(next);
    next += part;
  }
  return begins;
}

} // namespace

at::Tensor ReusedBytes::take(const std::vector<std::int64_t>& parts) {
  const std::int64_t sum =
      std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  if (!memory_.defined() || memory_.numel() < sum) {
    memory_ = at::empty({sum}, at::kByte);
  }
  return memory_.narrow(0, 0, sum);
}

LoadRun::LoadRun(
    const Manifest& manifest,
    const Ranks& ranks,
    const Request& request,
    PieceReader& reader,
    Order order)
    : manifest_(manifest),
      ranks_(ranks),
      reader_(reader),
      order_(order),
      progress_(
          str("[checkpoint.load] step ", manifest.step),
          ranks.is_first(),
          ProgressLog::Clock::now()) {
  for (const Piece& piece : pieces_of(request)) {
    add(piece);
  }
  make_room();
}

std::vector<LoadRun::Piece> LoadRun::pieces_of(const Request& request) const {
  std::vector<Piece> pieces;
  for (const Request::Slot& slot : request.slots()) {
    const TensorInfo& info = manifest_.tensors[slot.tensor].info;
    for (const LocalPiece& piece : slot.pieces) {
      pieces.push_back({slot, piece, scalar_type_of(info.dtype, info.name)});
    }
  }
  return pieces;
}

void LoadRun::add(const Piece& piece) {
  const auto& [slot, local, type] = piece;
  wants_.push_back({static_cast<std::uint32_t>(slot.tensor), local.box});
  const bool needs_undo = slot.in_place && order_ == Order::ReadWithUndo;
  const bool is_direct =
      piece.is_alike() && (!needs_undo || claimed_.claim(local.values));
  Target target{.values = local.values, .is_undoable = is_direct && needs_undo};
  target.buffer = is_direct ? local.values : at::empty({0}, type);
  targets_.push_back(std::move(target));
}

bool LoadRun::is_staged(const Target& target) const {
  return !target.values.is_same(target.buffer);
}

// For old values, and for new ones that have another form in the state.
void LoadRun::make_room() {
  std::size_t kept = 0;
  std::size_t staged = 0;
  const auto bytes_of = [&](std::size_t want) {
    return static_cast<std::size_t>(wants_[want].box.numel()) *
        targets_[want].buffer.itemsize();
  };
  for (std::size_t want = 0; want < targets_.size(); ++want) {
    kept += targets_[want].is_undoable ? bytes_of(want) : 0;
    staged += is_staged(targets_[want]) ? Staging::rounded(bytes_of(want)) : 0;
  }
  undo_.reset(kept);
  staging_.reset(staged);
  for (std::size_t want = 0; want < targets_.size(); ++want) {
    Target& target = targets_[want];
    if (is_staged(target) && bytes_of(want) > 0) {
      target.buffer = at::from_blob(
          staging_.take(bytes_of(want)),
          wants_[want].box.size,
          target.buffer.options());
    }
  }
}

// Collective.
void LoadRun::plan(const std::vector<std::vector<Want>>& wants, bool ahead) {
  wants_of_all_ = &wants;
  plan_ = plan_reads(manifest_, wants, ranks_.hosts());
  total_bytes_ = bytes_to_read();
  ARGOSY_ASSERT(!ahead || order_ != Order::VerifyThenRead);
  if (ahead && total_bytes_ > 0) {
    reader_.read_ahead(own_chunks());
  }
}

// In the order in which read() reads them.
std::vector<Chunk> LoadRun::own_chunks() const {
  std::vector<Chunk> chunks;
  for (const auto& wave : plan_.waves) {
    for (const PlannedRead& read : wave) {
      if (read.reader == ranks_.rank()) {
        for_each_chunk(
            read, [&](const Chunk& chunk) { chunks.push_back(chunk); });
      }
    }
  }
  return chunks;
}

std::uint64_t LoadRun::bytes_to_read() const {
  std::uint64_t bytes = 0;
  for (const auto& wave : plan_.waves) {
    for (const PlannedRead& read : wave) {
      if (read.reader == ranks_.rank()) {
        bytes += static_cast<std::uint64_t>(
            (read.end - read.begin) * width_of(read));
      }
    }
  }
  return bytes; // a second pass over verified files does not count
}

// Reads what this rank will read, if nothing may change before all is known
// to be good.
void LoadRun::verify() {
  if (order_ != Order::VerifyThenRead) {
    return;
  }
  for (const auto& wave : plan_.waves) {
    for (const PlannedRead& read : wave) {
      if (read.reader == ranks_.rank()) {
        for_each_chunk(
            read, [&](const Chunk& chunk) { reader_.verify(chunk); });
        progress_.tell(reader_.bytes_read(), total_bytes_);
      }
    }
  }
  reader_.trust_hashes();
}

// Collective. Throws on this rank alone; the others get values without
// meaning, and learn of it when ranks agree.
void LoadRun::read() {
  for (const auto& wave : plan_.waves) {
    read_wave(wave);
  }
  if (error_ != nullptr) {
    std::rethrow_exception(error_);
  }
}

void LoadRun::take() {
  const at::NoGradGuard no_grad;
  for (const Target& target : targets_) {
    if (is_staged(target)) {
      target.values.copy_(target.buffer);
    } else if (!target.values.is_inference()) { // tells who depends on them
      torch_hooks::bump_version(target.values);
    }
  }
}

void LoadRun::undo() {
  ARGOSY_ASSERT(order_ == Order::ReadWithUndo);
  undo_.restore();
}

// Where `bytes` of a want are written, from its byte `first` on.
std::byte* LoadRun::place_in(
    std::uint32_t want, std::int64_t first, std::size_t bytes) {
  Target& target = targets_[want];
  auto* const memory = static_cast<std::byte*>(target.buffer.data_ptr());
  const std::size_t end = static_cast<std::size_t>(first) + bytes;
  if (target.is_undoable && end > target.num_kept) {
    undo_.keep(memory + target.num_kept, end - target.num_kept);
    target.num_kept = end;
  }
  return memory + first;
}

const PieceRecord& LoadRun::piece_of(const PlannedRead& read) const {
  return manifest_.tensors[read.tensor].pieces[read.piece];
}
std::int64_t LoadRun::width_of(const PlannedRead& read) const {
  return static_cast<std::int64_t>(
      element_bytes(manifest_.tensors[read.tensor].info.dtype));
}

// Calls f(chunk) for each chunk of a read.
template <typename F>
void LoadRun::for_each_chunk(const PlannedRead& read, const F& f) const {
  const std::int64_t step =
      static_cast<std::int64_t>(kChunkBytes) / width_of(read);
  for (std::int64_t begin = read.begin; begin < read.end; begin += step) {
    f(Chunk{
        manifest_.tensors[read.tensor],
        read.piece,
        begin,
        std::min(begin + step, read.end)});
  }
}

void LoadRun::read_wave(const std::vector<PlannedRead>& wave) {
  const int own = ranks_.rank();
  std::vector<std::int64_t> sent(ranks_.size());
  std::vector<std::int64_t> received(ranks_.size());
  bool exchanges = false;
  for (const PlannedRead& read : wave) {
    for (const auto& taker : read.takers) {
      if (taker.rank == read.reader) {
        continue;
      }
      exchanges = true;
      if (read.reader == own || taker.rank == own) {
        const std::int64_t bytes = width_of(read) *
            count_common(piece_of(read).box,
                         read.begin,
                         read.end,
                         (*wants_of_all_)[taker.rank][taker.want].box);
        (read.reader == own ? sent[taker.rank] : received[read.reader]) +=
            bytes;
      }
    }
  }
  const at::Tensor out = received_.take(received);
  const at::Tensor in = sent_.take(sent);
  std::vector<std::byte*> next = begins_of(in, sent);
  read_own(wave, next);
  if (exchanges) {
    alltoall_single(out, in, {.out = received, .in = sent}, ranks_.group());
    unpack(wave, begins_of(out, received));
  }
}

// After an error, this rank only takes part in the exchanges.
void LoadRun::read_own(
    const std::vector<PlannedRead>& wave, std::vector<std::byte*>& next) {
  try {
    for (const PlannedRead& read : wave) {
      if (read.reader == ranks_.rank() && error_ == nullptr) {
        read_piece(read, next);
        progress_.tell(reader_.bytes_read(), total_bytes_);
      }
    }
  } catch (...) {
    error_ = std::current_exception();
  }
}

// Reads a range of a piece for each taker: to this rank's buffers, or to
// `next`, the places of the message to each rank.
void LoadRun::read_piece(
    const PlannedRead& read, std::vector<std::byte*>& next) {
  for_each_chunk(read, [&](const Chunk& chunk) {
    if (std::byte* const place = place_of(read, chunk)) {
      reader_.read(chunk, {place, chunk.bytes()});
      return;
    }
    const std::byte* const bytes = reader_.read(chunk);
    for (const auto& taker : read.takers) {
      give(read, chunk, bytes, taker, next);
    }
  });
}

// Where this rank wants a chunk, if it wants all of it in one place and
// nobody else wants some; else null.
std::byte* LoadRun::place_of(const PlannedRead& read, const Chunk& chunk) {
  if (read.takers.size() != 1 || read.takers[0].rank != ranks_.rank()) {
    return nullptr;
  }
  const std::uint32_t want = read.takers[0].want;
  const Box& box = wants_[want].box;
  const std::int64_t count = chunk.end - chunk.begin;
  if (count_common(chunk.record().box, chunk.begin, chunk.end, box) != count) {
    return nullptr;
  }
  std::byte* place = nullptr;
  for_each_run(
      chunk.record().box, chunk.begin, chunk.end, box, [&](const Run& run) {
        if (run.count == count) {
          place = place_in(want, run.to * width_of(read), chunk.bytes());
        }
      });
  return place;
}

void LoadRun::give(
    const PlannedRead& read,
    const Chunk& chunk,
    const std::byte* bytes,
    const PlannedRead::Taker& taker,
    std::vector<std::byte*>& next) {
  const std::int64_t width = width_of(read);
  const bool own = taker.rank == ranks_.rank();
  std::byte*& message = next[taker.rank];
  for_each_run(
      chunk.record().box,
      chunk.begin,
      chunk.end,
      (*wants_of_all_)[taker.rank][taker.want].box,
      [&](const Run& run) {
        const auto count = static_cast<std::size_t>(run.count * width);
        const std::byte* const from = bytes + (run.from - chunk.begin) * width;
        if (own) {
          std::memcpy(place_in(taker.want, run.to * width, count), from, count);
        } else {
          std::memcpy(message, from, count);
          message += count;
        }
      });
}

// The counterpart of give(), in the same order.
void LoadRun::unpack(
    const std::vector<PlannedRead>& wave, std::vector<std::byte*> next) {
  const int own = ranks_.rank();
  for (const PlannedRead& read : wave) {
    if (read.reader == own) {
      continue;
    }
    for_each_chunk(read, [&](const Chunk& chunk) {
      for (const auto& taker : read.takers) {
        if (taker.rank == own) {
          unpack_chunk(read, chunk, taker.want, next[read.reader]);
        }
      }
    });
  }
}

void LoadRun::unpack_chunk(
    const PlannedRead& read,
    const Chunk& chunk,
    std::uint32_t want,
    std::byte*& message) {
  const std::int64_t width = width_of(read);
  for_each_run(
      chunk.record().box,
      chunk.begin,
      chunk.end,
      wants_[want].box,
      [&](const Run& run) {
        const auto bytes = static_cast<std::size_t>(run.count * width);
        std::memcpy(place_in(want, run.to * width, bytes), message, bytes);
        message += bytes;
      });
}

} // namespace argosy::checkpoint
