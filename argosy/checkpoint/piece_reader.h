#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "argosy/checkpoint/chunk_stream.h"
#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/manifest.h"

namespace argosy::checkpoint {

// A part of a piece that is hashed as one: at most kChunkBytes.
struct Chunk {
  const TensorRecord& tensor;
  std::size_t piece = 0;
  // Elements of the piece, row-major.
  std::int64_t begin = 0;
  std::int64_t end = 0;

  const PieceRecord& record() const { return tensor.pieces[piece]; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(end - begin) *
        element_bytes(tensor.info.dtype);
  }
  std::uint64_t byte_in_piece() const {
    return static_cast<std::uint64_t>(begin) * element_bytes(tensor.info.dtype);
  }
};

// Reads and verifies chunks of a checkpoint's pieces. Torch-free. Not
// thread-safe.
class PieceReader {
 public:
  // Throws CheckpointError if the checkpoint is encrypted and `key` is missing
  // or another one.
  PieceReader(
      const Manifest& manifest,
      const Folder& folder,
      std::string name,
      const std::optional<Key>& key,
      Deadline deadline);
  ~PieceReader();

  // Whether bytes that were read once are likely in the page cache.
  bool is_local() const;

  // Reads a chunk. Throws CheckpointError that names the file, the tensor and
  // the byte if the bytes are not what was written.
  void read(const Chunk& chunk, std::span<std::byte> into);
  // The same into a buffer that is valid until the next call.
  const std::byte* read(const Chunk& chunk);

  // Reads a chunk only to verify it.
  void verify(const Chunk& chunk);

  // The chunks that are read next, in this order and no others: threads read
  // them ahead, past the page cache.
  void read_ahead(const std::vector<Chunk>& chunks);

  // From here on chunks are not hashed: the caller has verified all of them.
  void trust_hashes() { verifies_ = false; }

  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::unique_ptr<fs::Reader> open_file(
      std::uint32_t number, const std::string& tensor, bool direct) const;
  fs::Reader& file(std::uint32_t number, const TensorRecord& tensor);
  std::span<std::byte> next_ahead(const Chunk& chunk);
  template <typename SliceAt>
  void read_verified(const Chunk& chunk, const SliceAt& slice_at);
  [[noreturn]] void throw_damaged(const Chunk& chunk) const;

  const Manifest& manifest_;
  const Folder& folder_;
  const std::string name_;
  std::unique_ptr<Cipher> cipher_; // null: plain
  const Deadline deadline_;
  std::map<std::uint32_t, std::unique_ptr<fs::Reader>> files_;
  std::vector<std::byte> buffer_;
  bool verifies_ = true;
  std::uint64_t bytes_read_ = 0;
  std::unique_ptr<ChunkStream>
      ahead_; // null: chunks are read when they are used
};

} // namespace argosy::checkpoint
