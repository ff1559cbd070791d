#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace argosy::comm {

// Contiguous elements.
struct Block {
  void* data = nullptr; // not written if it is an input
  std::size_t count = 0;
};

// One block for each rank of a group. They need not be adjacent.
using Blocks = std::vector<Block>;

// `count` elements of `element` bytes for each of `num_ranks` ranks, packed in
// rank order.
Blocks packed_blocks(
    const void* data, int num_ranks, std::size_t count, std::size_t element);

// Whether the blocks are adjacent, in rank order.
bool is_packed(const Blocks& blocks, std::size_t element);

std::size_t total_count(const Blocks& blocks);

// The blocks as one contiguous buffer: their own memory if they are packed,
// else a copy.
class PackedBlocks {
 public:
  enum class Use { Input, Output };

  PackedBlocks(const Blocks& blocks, std::size_t element, Use use);

  void* data() const { return data_; }

  // For outputs: writes the copy, if there is one, to the blocks.
  void put_back() const;

 private:
  const Blocks blocks_;
  const std::size_t element_;
  void* data_ = nullptr;
  std::unique_ptr<std::byte[]> copy_; // null: the blocks were packed
};

} // namespace argosy::comm
