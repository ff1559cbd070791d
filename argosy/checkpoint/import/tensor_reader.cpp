#include "argosy/checkpoint/import/tensor_reader.h"

#include <algorithm>
#include <cstring>

#include "argosy/checkpoint/boxes.h"
#include "argosy/checkpoint/import/strided_gather.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kLeastChunks = 16;
constexpr std::uint64_t kReadBlock = 16 << 10;
constexpr std::size_t kReadBlocks = 4096;
constexpr std::uint64_t kSlabBytes = std::uint64_t{64} << 20;
constexpr std::size_t kSlabs = 1;
// Shorter runs of strided elements are read by blocks.
constexpr std::uint64_t kLeastRead = 256;

[[noreturn]] void refuse_chunk(
    const SourceTensor& tensor,
    const SourcePiece& piece,
    std::uint64_t offset,
    const std::string& what) {
  throw CheckpointError(
      str("[checkpoint.read] ",
          piece.source->name(),
          ", tensor ",
          tensor.info.name,
          ", byte ",
          piece.offset + offset,
          ": ",
          what));
}

} // namespace

TensorReader::TensorReader(const Cipher* cipher)
    : cipher_(cipher),
      chunks_(kLeastChunks),
      slabs_(kSlabs),
      blocks_(kReadBlocks) {}

void TensorReader::read(
    const SourceTensor& tensor,
    const Box& box,
    std::int64_t begin,
    std::int64_t end,
    std::byte* to) {
  if (current_ != &tensor) {
    chunks_.clear();
    slabs_.clear();
    chunks_.set_capacity(std::max(kLeastChunks, tensor.pieces.size() + 1));
    current_ = &tensor;
  }
  const std::size_t width = element_bytes(tensor.info.dtype);
  for (Box part : boxes_of_range(box.size, begin, end - begin)) {
    for (std::size_t d = 0; d < part.offset.size(); ++d) {
      part.offset[d] += box.offset[d];
    }
    for (const SourcePiece& piece : tensor.pieces) {
      for_each_run(piece.box, 0, piece.box.numel(), part, [&](const Run& run) {
        read_run(
            tensor,
            piece,
            run.from,
            run.count,
            to + static_cast<std::size_t>(run.to) * width);
      });
    }
    to += static_cast<std::size_t>(part.numel()) * width;
  }
}

void TensorReader::read_run(
    const SourceTensor& tensor,
    const SourcePiece& piece,
    std::int64_t from,
    std::int64_t count,
    std::byte* to) {
  const std::size_t width = element_bytes(tensor.info.dtype);
  const std::uint64_t offset = static_cast<std::uint64_t>(from) * width;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * width;
  if (!piece.strides.empty()) {
    read_strided(piece, width, offset, bytes, to);
  } else if (!piece.hashes.empty()) {
    read_hashed(tensor, piece, offset, bytes, to);
  } else {
    read_cached(piece, piece.offset + offset, bytes, to);
  }
}

void TensorReader::read_hashed(
    const SourceTensor& tensor,
    const SourcePiece& piece,
    std::uint64_t from,
    std::uint64_t bytes,
    std::byte* to) {
  while (bytes > 0) {
    const std::size_t chunk = from / kChunkBytes;
    const auto& data = chunks_.get(std::pair(&piece, chunk), [&] {
      return read_chunk(tensor, piece, chunk);
    });
    const std::uint64_t skip = from % kChunkBytes;
    const std::uint64_t part =
        std::min<std::uint64_t>(bytes, data.size() - skip);
    std::memcpy(to, data.data() + skip, part);
    to += part;
    from += part;
    bytes -= part;
  }
}

std::vector<std::byte> TensorReader::read_chunk(
    const SourceTensor& tensor, const SourcePiece& piece, std::size_t chunk) {
  const std::uint64_t all = static_cast<std::uint64_t>(piece.box.numel()) *
      element_bytes(tensor.info.dtype);
  const std::uint64_t from = chunk * kChunkBytes;
  Bytes bytes(std::min<std::uint64_t>(kChunkBytes, all - from));
  piece.source->read(piece.offset + from, bytes);
  if (chunk >= piece.hashes.size() ||
      hash_bytes(bytes) != piece.hashes[chunk]) {
    refuse_chunk(
        tensor,
        piece,
        from,
        str("the ",
            bytes.size(),
            " bytes from here on are damaged: their hash is not that of the "
            "manifest"));
  }
  if (!piece.tags.empty()) {
    ARGOSY_CHECK(
        cipher_ != nullptr,
        "[checkpoint.read] {} is encrypted, expected a key (--key FILE)",
        piece.source->name());
    cipher_->decrypt(
        piece.file, piece.offset + from, bytes, piece.tags.at(chunk));
  }
  return bytes;
}

// Strided elements are gathered by slabs of rows, which makes the runs in the
// source as long as the slab has rows.
void TensorReader::read_strided(
    const SourcePiece& piece,
    std::size_t width,
    std::uint64_t from,
    std::uint64_t bytes,
    std::byte* to) {
  while (bytes > 0) {
    const std::uint64_t slab = from / kSlabBytes;
    const auto& data = slabs_.get(std::pair(&piece, slab), [&] {
      return gather_slab(piece, width, slab);
    });
    const std::uint64_t skip = from % kSlabBytes;
    const std::uint64_t part =
        std::min<std::uint64_t>(bytes, data.size() - skip);
    std::memcpy(to, data.data() + skip, part);
    to += part;
    from += part;
    bytes -= part;
  }
}

std::vector<std::byte> TensorReader::gather_slab(
    const SourcePiece& piece, std::size_t width, std::uint64_t slab) {
  const auto per_slab = static_cast<std::int64_t>(kSlabBytes / width);
  const std::int64_t from = static_cast<std::int64_t>(slab) * per_slab;
  const std::int64_t count = std::min(per_slab, piece.box.numel() - from);
  Bytes bytes(static_cast<std::size_t>(count) * width);
  gather_strided(
      piece,
      width,
      from,
      count,
      bytes.data(),
      [&](std::uint64_t offset, std::span<std::byte> to) {
        if (to.size() >= kLeastRead) {
          piece.source->read(offset, to);
        } else {
          read_cached(piece, offset, to.size(), to.data());
        }
      });
  return bytes;
}

// Short reads go through blocks that are kept, because columns of a matrix lie
// in the same ones.
void TensorReader::read_cached(
    const SourcePiece& piece,
    std::uint64_t offset,
    std::uint64_t bytes,
    std::byte* to) {
  if (bytes >= kReadBlock) {
    piece.source->read(offset, {to, bytes});
    return;
  }
  while (bytes > 0) {
    const std::uint64_t block = offset / kReadBlock;
    const auto& data = blocks_.get(std::pair(piece.source.get(), block), [&] {
      const std::uint64_t from = block * kReadBlock;
      Bytes read(std::min(kReadBlock, piece.source->size() - from));
      piece.source->read(from, read);
      return read;
    });
    const std::uint64_t skip = offset % kReadBlock;
    const std::uint64_t part =
        std::min<std::uint64_t>(bytes, data.size() - skip);
    std::memcpy(to, data.data() + skip, part);
    to += part;
    offset += part;
    bytes -= part;
  }
}

} // namespace argosy::checkpoint
