#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "argosy/checkpoint/convert/copy.h"
#include "argosy/checkpoint/safetensors.h"

namespace argosy::checkpoint {

struct OutputPiece {
  const SourceTensor* tensor = nullptr;
  Box box;
};

// Sees, and may change, each chunk before it is written: elements [begin, end)
// of piece `piece`, which begin at byte `offset` of the file.
using OnChunk = std::function<void(
    std::size_t piece,
    std::int64_t begin,
    std::int64_t end,
    std::uint64_t offset,
    std::span<std::byte> bytes)>;

// Writes a safetensors file of boxes of tensors, at most one of each tensor.
// Returns its header.
SafetensorsHeader write_pieces(
    const std::vector<OutputPiece>& pieces,
    std::map<std::string, std::string> metadata,
    const fs::Location& file,
    ChunkCopier& copier,
    const OnChunk& on_chunk = {});

} // namespace argosy::checkpoint
