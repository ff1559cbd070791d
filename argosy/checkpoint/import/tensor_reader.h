#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/import/lru_cache.h"
#include "argosy/checkpoint/import/tensor_set.h"

namespace argosy::checkpoint {

// Reads parts of tensors, whatever pieces they are in. What has hashes is
// verified, and decrypted if there is a cipher. Keeps the chunks and blocks it
// read last, so that reading a tensor in row-major order reads its files once:
// 200 MB, or a chunk (4 MB) for each piece if a tensor has more pieces. For one
// thread.
class TensorReader {
 public:
  // `cipher` is for encrypted checkpoints, and must outlive the reader; without
  // it reading them throws InvalidArgument.
  explicit TensorReader(const Cipher* cipher = nullptr);

  // Elements [begin, end) of `box`, row-major, one after the other to `to`.
  // Throws CheckpointError that names file, tensor and byte of damage.
  void read(
      const SourceTensor& tensor,
      const Box& box,
      std::int64_t begin,
      std::int64_t end,
      std::byte* to);

  // Verifies a chunk of a piece: its bytes, decrypted.
  std::vector<std::byte> read_chunk(
      const SourceTensor& tensor, const SourcePiece& piece, std::size_t chunk);

 private:
  void read_run(
      const SourceTensor& tensor,
      const SourcePiece& piece,
      std::int64_t from,
      std::int64_t count,
      std::byte* to);
  void read_hashed(
      const SourceTensor& tensor,
      const SourcePiece& piece,
      std::uint64_t from,
      std::uint64_t bytes,
      std::byte* to);
  void read_strided(
      const SourcePiece& piece,
      std::size_t width,
      std::uint64_t from,
      std::uint64_t bytes,
      std::byte* to);
  std::vector<std::byte> gather_slab(
      const SourcePiece& piece, std::size_t width, std::uint64_t slab);
  void read_cached(
      const SourcePiece& piece,
      std::uint64_t offset,
      std::uint64_t bytes,
      std::byte* to);

  using Bytes = std::vector<std::byte>;

  const Cipher* cipher_;
  const SourceTensor* current_ = nullptr; // whose chunks are kept
  LruCache<std::pair<const SourcePiece*, std::size_t>, Bytes> chunks_;
  LruCache<std::pair<const SourcePiece*, std::uint64_t>, Bytes> slabs_;
  LruCache<std::pair<const ByteSource*, std::uint64_t>, Bytes> blocks_;
};

} // namespace argosy::checkpoint
