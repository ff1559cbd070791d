#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/checkpoint/save_plan.h"
#include "argosy/checkpoint/staging.h"
#include "argosy/checkpoint/stream_writer.h"
// Writes the files of one rank. Not installed.
namespace argosy::checkpoint {

// What a rank has written, for the manifest.
struct Written {
  struct Piece {
    std::uint32_t tensor = 0; // in the inventory
    PieceRecord record;
  };
  std::vector<FileRecord> files;
  std::vector<Piece> pieces;
  // By tensor: the sums of its blocks that this rank's pieces add to.
  std::vector<std::pair<std::uint32_t, BlockSums>> sums;
  std::uint64_t linked_bytes = 0;
};

std::string encode(const Written& written);
Written decode_written(
    const std::string& bytes, const std::vector<TensorInfo>& tensors);

struct WriteSettings {
  std::string name; // of the checkpoint
  // The last checkpoint, whose files may be linked; null: none.
  std::shared_ptr<const Manifest> last;
  std::string last_name;
  Deadline deadline;
  // Gets the bytes that are left, at most twice a second. May be null.
  std::function<void(std::uint64_t left)> on_progress;
};

// Writes pieces in the order of the files. Pieces come from the user's memory
// or from copies of it: stage() makes copies of all that is not written yet, so
// that the user may go on.
class RankWriter {
 public:
  RankWriter(
      const Folder& folder,
      std::shared_ptr<const SavePlan> plan,
      const Contents& contents,
      WriteSettings settings,
      WriteBuffers& buffers); // which must outlive it
  ~RankWriter();

  // Before anything is written. Null: plain.
  void encrypt_with(std::shared_ptr<const Cipher> cipher);

  std::uint64_t bytes() const; // all that this rank has to write
  std::uint64_t bytes_left() const;

  // Writes until at most this many bytes are left.
  void write_until_left(std::uint64_t bytes);
  // Copies what is left into `staging`, which must stay until finish().
  void stage(Staging& staging);
  // Writes what is left.
  Written finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::checkpoint
