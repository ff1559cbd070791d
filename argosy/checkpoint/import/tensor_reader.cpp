#include "argosy/checkpoint/import/tensor_reader.h"

#include <algorithm>
#include <cstring>

#include "argosy/checkpoint/boxes.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kLeastChunks = 16;
constexpr std::uint64_t kReadBlock = 16 << 10;
constexpr std::size_t kReadBlocks = 4096;

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

// Elements of a row of a strided piece, from index `from` of the piece on.
struct StridedRow {
  std::uint64_t offset = 0; // bytes, in the source
  std::int64_t count = 0;   // elements up to the end of the row
  std::int64_t stride = 1;  // elements
};

StridedRow row_at(
    const SourcePiece& piece, std::size_t width, std::int64_t from) {
  StridedRow row{.offset = piece.offset, .count = 1};
  for (std::size_t d = piece.box.size.size(); d-- > 0;) {
    const std::int64_t size = piece.box.size[d];
    const std::int64_t index = from % size;
    from /= size;
    row.offset += static_cast<std::uint64_t>(index * piece.strides[d]) * width;
    if (d + 1 == piece.box.size.size()) {
      row.count = size - index;
      row.stride = piece.strides[d];
    }
  }
  return row;
}

} // namespace

TensorReader::TensorReader(const Cipher* cipher)
    : cipher_(cipher), chunks_(kLeastChunks), blocks_(kReadBlocks) {}

void TensorReader::read(
    const SourceTensor& tensor,
    const Box& box,
    std::int64_t begin,
    std::int64_t end,
    std::byte* to) {
  if (current_ != &tensor) {
    chunks_.clear();
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
  if (!piece.strides.empty()) {
    read_strided(piece, width, from, count, to);
    return;
  }
  const std::uint64_t offset = static_cast<std::uint64_t>(from) * width;
  const std::uint64_t bytes = static_cast<std::uint64_t>(count) * width;
  if (!piece.hashes.empty()) {
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

void TensorReader::read_strided(
    const SourcePiece& piece,
    std::size_t width,
    std::int64_t from,
    std::int64_t count,
    std::byte* to) {
  while (count > 0) {
    const StridedRow row = row_at(piece, width, from);
    const std::int64_t part = std::min(row.count, count);
    if (row.stride == 1) {
      read_cached(
          piece, row.offset, static_cast<std::uint64_t>(part) * width, to);
    } else {
      for (std::int64_t i = 0; i < part; ++i) {
        const auto skip = static_cast<std::uint64_t>(i * row.stride) * width;
        read_cached(
            piece,
            row.offset + skip,
            width,
            to + static_cast<std::size_t>(i) * width);
      }
    }
    from += part;
    count -= part;
    to += static_cast<std::size_t>(part) * width;
  }
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
