#include "argosy/checkpoint/piece_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"

namespace argosy::checkpoint {

namespace {

constexpr std::size_t kSliceBytes = std::size_t{256} << 10;

} // namespace

PieceReader::PieceReader(
    const Manifest& manifest,
    const Folder& folder,
    std::string name,
    const std::optional<Key>& key,
    Deadline deadline)
    : manifest_(manifest),
      folder_(folder),
      name_(std::move(name)),
      deadline_(deadline) {
  if (!manifest.encryption) {
    return;
  }
  if (!key) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} is encrypted ({}): give its key "
        "(LoadOptions::key)",
        folder.url(name_),
        manifest.encryption->algorithm));
  }
  cipher_ = std::make_unique<Cipher>(*key, *manifest.encryption);
}

PieceReader::~PieceReader() = default;

std::unique_ptr<fs::Reader> PieceReader::open_file(
    std::uint32_t number, const std::string& tensor, bool direct) const {
  const FileRecord& record = manifest_.files[number];
  const std::string path = fs::join_path(folder_.path_of(name_), record.path);
  fs::ReadOptions options;
  options.direct = direct;
  auto opened = folder_.fs().open_read(path, std::move(options), deadline_);
  if (opened->size() != record.bytes) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} has {} bytes, expected {}; {} cannot be read. "
        "Load another checkpoint",
        folder_.fs().url(path),
        opened->size(),
        record.bytes,
        tensor));
  }
  return opened;
}

fs::Reader& PieceReader::file(
    std::uint32_t number, const TensorRecord& tensor) {
  auto& reader = files_[number];
  if (reader == nullptr) {
    reader = open_file(number, tensor.info.name, false);
  }
  return *reader;
}

void PieceReader::read_ahead(const std::vector<Chunk>& chunks) {
  std::vector<ChunkRange> ranges;
  std::map<std::uint32_t, std::string> tensors; // for messages, by file
  for (const Chunk& chunk : chunks) {
    const PieceRecord& record = chunk.record();
    ranges.push_back(
        {record.file, record.offset + chunk.byte_in_piece(), chunk.bytes()});
    tensors.emplace(record.file, chunk.tensor.info.name);
  }
  ahead_ = std::make_unique<ChunkStream>(
      std::move(ranges),
      [this, tensors = std::move(tensors)](const ChunkRange& range) {
        return open_file(range.file, tensors.at(range.file), true);
      },
      deadline_);
}

std::span<std::byte> PieceReader::next_ahead(const Chunk& chunk) {
  const PieceRecord& record = chunk.record();
  const std::size_t index = chunk.byte_in_piece() / kChunkBytes;
  const std::span<std::byte> bytes = ahead_->next();
  ARGOSY_ASSERT(bytes.size() == chunk.bytes());
  bytes_read_ += bytes.size();
  if (hash_bytes(bytes) != record.hashes[index]) {
    throw_damaged(chunk);
  }
  if (cipher_ != nullptr) {
    cipher_->decrypt(
        record.file,
        record.offset + chunk.byte_in_piece(),
        bytes,
        record.tags[index]);
  }
  return bytes;
}

bool PieceReader::is_local() const {
  return folder_.fs().is_local();
}

void PieceReader::throw_damaged(const Chunk& chunk) const {
  const PieceRecord& record = chunk.record();
  const std::uint64_t offset = record.offset + chunk.byte_in_piece();
  throw CheckpointError(str_format(
      "[checkpoint.load] {}: bytes {} to {} are damaged: {} (box {}) does not "
      "have the hash that the manifest has for it. Load another checkpoint "
      "(LoadOptions::step); `argosy ckpt verify` lists all damage",
      folder_.fs().url(fs::join_path(
          folder_.path_of(name_), manifest_.files[record.file].path)),
      offset,
      offset + chunk.bytes(),
      chunk.tensor.info.name,
      record.box));
}

// Local files are read in slices that are hashed while they are in the cache of
// the core. slice_at(begin, count) says where to read a slice to.
template <typename SliceAt>
void PieceReader::read_verified(const Chunk& chunk, const SliceAt& slice_at) {
  const PieceRecord& record = chunk.record();
  fs::Reader& from = file(record.file, chunk.tensor);
  const std::uint64_t offset = record.offset + chunk.byte_in_piece();
  const std::size_t step = is_local() ? kSliceBytes : chunk.bytes();
  BytesHash hash;
  for (std::size_t begin = 0; begin < chunk.bytes(); begin += step) {
    const std::span<std::byte> slice =
        slice_at(begin, std::min(step, chunk.bytes() - begin));
    from.read_at(offset + begin, slice, deadline_);
    hash.add(slice);
  }
  bytes_read_ += chunk.bytes();
  if (hash.result() != record.hashes[chunk.byte_in_piece() / kChunkBytes]) {
    throw_damaged(chunk);
  }
}

void PieceReader::verify(const Chunk& chunk) {
  if (cipher_ != nullptr || !is_local()) {
    (void)read(chunk);
    return;
  }
  buffer_.resize(kChunkBytes);
  read_verified(chunk, [&](std::size_t, std::size_t count) {
    return std::span(buffer_).first(count); // the same memory for all slices
  });
}

void PieceReader::read(const Chunk& chunk, std::span<std::byte> into) {
  ARGOSY_ASSERT(into.size() == chunk.bytes());
  if (ahead_ != nullptr) {
    std::memcpy(into.data(), next_ahead(chunk).data(), into.size());
    return;
  }
  const PieceRecord& record = chunk.record();
  const std::uint64_t offset = record.offset + chunk.byte_in_piece();
  if (verifies_) {
    read_verified(chunk, [&](std::size_t begin, std::size_t count) {
      return into.subspan(begin, count);
    });
  } else { // again, from the page cache
    file(record.file, chunk.tensor).read_at(offset, into, deadline_);
  }
  if (cipher_ != nullptr) {
    cipher_->decrypt(
        record.file,
        offset,
        into,
        record.tags[chunk.byte_in_piece() / kChunkBytes]);
  }
}

const std::byte* PieceReader::read(const Chunk& chunk) {
  if (ahead_ != nullptr) {
    return next_ahead(chunk).data();
  }
  buffer_.resize(kChunkBytes);
  read(chunk, std::span(buffer_).first(chunk.bytes()));
  return buffer_.data();
}

} // namespace argosy::checkpoint
