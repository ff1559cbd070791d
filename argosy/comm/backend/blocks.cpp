#include "argosy/comm/backend/blocks.h"
#include "argosy/comm/backend/slices.h"

#include <cstring>

namespace argosy::comm {

Blocks packed_blocks(
    const void* data, int num_ranks, std::size_t count, std::size_t element) {
  Blocks blocks;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    blocks.push_back({writable_at(data, index * count * element), count});
  }
  return blocks;
}

bool is_packed(const Blocks& blocks, std::size_t element) {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (writable_at(blocks[i - 1].data, blocks[i - 1].count * element) !=
        blocks[i].data) {
      return false;
    }
  }
  return true;
}

std::size_t total_count(const Blocks& blocks) {
  std::size_t count = 0;
  for (const Block& block : blocks) {
    count += block.count;
  }
  return count;
}

PackedBlocks::PackedBlocks(const Blocks& blocks, std::size_t element, Use use)
    : blocks_(blocks), element_(element) {
  if (is_packed(blocks, element)) {
    data_ = blocks.empty() ? nullptr : blocks.front().data;
    return;
  }
  copy_.reset(new std::byte[total_count(blocks) * element]);
  data_ = copy_.get();
  std::size_t offset = 0;
  for (const Block& block : blocks) {
    const std::size_t bytes = block.count * element;
    if (use == Use::Input && bytes > 0) {
      std::memcpy(writable_at(data_, offset), block.data, bytes);
    }
    offset += bytes;
  }
}

void PackedBlocks::put_back() const {
  if (!copy_) {
    return;
  }
  std::size_t offset = 0;
  for (const Block& block : blocks_) {
    const std::size_t bytes = block.count * element_;
    if (bytes > 0) {
      std::memcpy(block.data, writable_at(data_, offset), bytes);
    }
    offset += bytes;
  }
}

} // namespace argosy::comm
