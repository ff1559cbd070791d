#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <vector>

#include "argosy/checkpoint/claimed_storages.h"
#include "argosy/checkpoint/exchange.h"
#include "argosy/checkpoint/load_way.h"
#include "argosy/checkpoint/piece_reader.h"
#include "argosy/checkpoint/progress_log.h"
#include "argosy/checkpoint/read_plan.h"
#include "argosy/checkpoint/staging.h"
#include "argosy/checkpoint/state_part.h"
#include "argosy/checkpoint/undo_log.h"

// Executes the plan of a load on one rank. Not installed.
namespace argosy::checkpoint {

// Memory that grows and is used again.
class ReusedBytes {
 public:
  at::Tensor take(const std::vector<std::int64_t>& parts);

 private:
  at::Tensor memory_;
};

class LoadRun {
 public:
  LoadRun(
      const Manifest& manifest,
      const Ranks& ranks,
      const Request& request,
      PieceReader& reader,
      Order order);

  const std::vector<Want>& wants() const { return wants_; }

  // Collective. `wants` of all ranks; must stay. `ahead`: threads read the
  // files past the page cache; not with VerifyThenRead.
  void plan(const std::vector<std::vector<Want>>& wants, bool ahead);
  // Reads what this rank will read, if nothing may change before all is known
  // to be good.
  void verify();
  // Collective. Throws on this rank alone; the others get values without
  // meaning, and learn of it when ranks agree.
  void read();
  // Brings the values into the state that read() did not read to it.
  void take();
  // Brings back what was in the state before read(). Only with ReadWithUndo.
  void undo();

 private:
  // A box that this rank needs, and where its values go.
  struct Target {
    at::Tensor values; // of the state
    // Row-major: the same memory, or staged and copied to `values` at last.
    at::Tensor buffer;
    bool is_undoable = false;
    std::size_t num_kept = 0; // bytes from the begin that the log has
  };
  // A piece of a slot, and the type that its values have in the file.
  struct Piece {
    const Request::Slot& slot;
    const LocalPiece& local;
    at::ScalarType type;

    // Whether the bytes in the file are those in memory.
    bool is_alike() const {
      return local.values.is_contiguous() && local.values.scalar_type() == type;
    }
    std::size_t bytes() const {
      return static_cast<std::size_t>(local.box.numel()) *
          c10::elementSize(type);
    }
  };

  std::vector<Piece> pieces_of(const Request& request) const;
  void add(const Piece& piece);
  void make_room();
  bool is_staged(const Target& target) const;
  std::byte* place_in(
      std::uint32_t want, std::int64_t first, std::size_t bytes);
  const PieceRecord& piece_of(const PlannedRead& read) const;
  std::int64_t width_of(const PlannedRead& read) const;
  template <typename F>
  void for_each_chunk(const PlannedRead& read, const F& f) const;
  std::uint64_t bytes_to_read() const;
  std::vector<Chunk> own_chunks() const;
  void read_wave(const std::vector<PlannedRead>& wave);
  void read_own(
      const std::vector<PlannedRead>& wave, std::vector<std::byte*>& next);
  void read_piece(const PlannedRead& read, std::vector<std::byte*>& next);
  std::byte* place_of(const PlannedRead& read, const Chunk& chunk);
  void give(
      const PlannedRead& read,
      const Chunk& chunk,
      const std::byte* bytes,
      const PlannedRead::Taker& taker,
      std::vector<std::byte*>& next);
  void unpack(
      const std::vector<PlannedRead>& wave, std::vector<std::byte*> next);
  void unpack_chunk(
      const PlannedRead& read,
      const Chunk& chunk,
      std::uint32_t want,
      std::byte*& message);

  const Manifest& manifest_;
  const Ranks& ranks_;
  PieceReader& reader_;
  const Order order_;
  ReadPlan plan_;
  ReusedBytes sent_;
  ReusedBytes received_;
  std::vector<Want> wants_;
  std::vector<Target> targets_; // by want
  ClaimedStorages claimed_;     // of undoable targets
  UndoLog undo_;
  Staging staging_;
  const std::vector<std::vector<Want>>* wants_of_all_ = nullptr;
  std::exception_ptr error_;
  std::uint64_t total_bytes_ = 0; // that this rank has to read
  ProgressLog progress_;
};

} // namespace argosy::checkpoint
