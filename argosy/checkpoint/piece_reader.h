#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/manifest.h"

namespace argosy::checkpoint {

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

  // Elements [begin, end) of a piece: one chunk. Valid until the next call.
  // Throws CheckpointError that names the file, the tensor and the byte if they
  // are not what was written.
  const std::byte* chunk(
      const TensorRecord& tensor,
      std::size_t piece,
      std::int64_t begin,
      std::int64_t end);

  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  fs::Reader& file(std::uint32_t number, const TensorRecord& tensor);

  const Manifest& manifest_;
  const Folder& folder_;
  const std::string name_;
  std::unique_ptr<Cipher> cipher_; // null: plain
  const Deadline deadline_;
  std::map<std::uint32_t, std::unique_ptr<fs::Reader>> files_;
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_read_ = 0;
};

} // namespace argosy::checkpoint
