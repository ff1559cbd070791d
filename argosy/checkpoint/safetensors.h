#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Headers of safetensors files. The format: 8 bytes of length (little-endian),
// a JSON header, then the tensors without gaps.
namespace argosy::checkpoint {

struct StoredTensor {
  TensorInfo info;          // of what the file has: a piece, or a whole tensor
  std::uint64_t offset = 0; // of the first byte, from the beginning of the file
  std::uint64_t bytes = 0;

  bool operator==(const StoredTensor&) const = default;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors; // by offset
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;
  std::uint64_t file_bytes = 0;

  bool operator==(const SafetensorsHeader&) const = default;
};

// Lays tensors out in one file: the widest types first, then by name, so that
// each is aligned; the data begins at a multiple of `alignment`. Throws
// InvalidArgument for two tensors of one name.
SafetensorsHeader lay_out(
    std::vector<TensorInfo> tensors,
    std::map<std::string, std::string> metadata,
    std::uint64_t alignment = 4096);

// The bytes of a file up to data_begin.
std::string header_bytes(const SafetensorsHeader& header);

// How many bytes of a file the header takes, of its first 8 bytes. Throws
// CheckpointError if that is more than `file_bytes` or 100 MB.
std::uint64_t header_size(
    std::span<const std::byte> first8,
    std::uint64_t file_bytes,
    const std::string& path);

// Parses the header (data_begin bytes) of a file of `file_bytes`. Refuses all
// that the format's reference refuses: duplicate names, gaps, overlaps, sizes
// that do not match. Throws CheckpointError that names `path` and the tensor.
SafetensorsHeader parse_header(
    std::string_view bytes, std::uint64_t file_bytes, const std::string& path);

// Metadata of a file whose tensors are pieces: where each begins in the whole
// ("DCP_SHARDING_INFO", as PyTorch's Hugging Face storage has it), and its
// whole shape. A file has at most one piece of a tensor.
std::map<std::string, std::string> piece_metadata(
    const std::vector<std::pair<TensorInfo, Box>>& pieces);

} // namespace argosy::checkpoint
