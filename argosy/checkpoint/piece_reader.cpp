#include "argosy/checkpoint/piece_reader.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/rank_label.h"

namespace argosy::checkpoint {

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

fs::Reader& PieceReader::file(
    std::uint32_t number, const TensorRecord& tensor) {
  auto& reader = files_[number];
  if (reader == nullptr) {
    const FileRecord& record = manifest_.files[number];
    const std::string path = fs::join_path(folder_.path_of(name_), record.path);
    auto opened = folder_.fs().open_read(path, {}, deadline_);
    if (opened->size() != record.bytes) {
      throw CheckpointError(str_format(
          "[checkpoint.load] {} has {} bytes, expected {}; {} cannot be read. "
          "Load another checkpoint",
          folder_.fs().url(path),
          opened->size(),
          record.bytes,
          tensor.info.name));
    }
    reader = std::move(opened);
  }
  return *reader;
}

const std::byte* PieceReader::chunk(
    const TensorRecord& tensor,
    std::size_t piece,
    std::int64_t begin,
    std::int64_t end) {
  const PieceRecord& record = tensor.pieces[piece];
  const std::uint64_t width = element_bytes(tensor.info.dtype);
  const std::uint64_t offset =
      record.offset + static_cast<std::uint64_t>(begin) * width;
  buffer_.resize(kChunkBytes);
  const std::span bytes(
      buffer_.data(), static_cast<std::size_t>((end - begin) * width));
  const std::size_t number =
      static_cast<std::uint64_t>(begin) * width / kChunkBytes;
  file(record.file, tensor).read_at(offset, bytes, deadline_);
  bytes_read_ += bytes.size();
  if (hash_bytes(bytes) != record.hashes[number]) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {}: bytes {} to {} are damaged: {} (box {}) does "
        "not "
        "have the hash that the manifest has for it. Load another checkpoint; "
        "`argosy ckpt verify` lists all damage",
        folder_.fs().url(fs::join_path(
            folder_.path_of(name_), manifest_.files[record.file].path)),
        offset,
        offset + bytes.size(),
        tensor.info.name,
        record.box));
  }
  if (cipher_ != nullptr) {
    cipher_->decrypt(record.file, offset, bytes, record.tags[number]);
  }
  return buffer_.data();
}

} // namespace argosy::checkpoint
