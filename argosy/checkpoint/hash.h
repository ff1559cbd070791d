#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Hashes of checkpoints: of bytes as they are in files, and of tensors whatever
// their layout.
namespace argosy::checkpoint {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};

// 32 digits, the highest first, as xxh128sum prints them.
std::string to_hex(const Hash128& hash);
// Throws CheckpointError if it is not 32 lower-case digits.
Hash128 hash_of_hex(std::string_view hex);

// XXH3, 128 bits.
Hash128 hash_bytes(std::span<const std::byte> bytes);

// The same of bytes that come in parts.
class BytesHash {
 public:
  BytesHash();
  void add(std::span<const std::byte> bytes);
  Hash128 result() const; // of all bytes until now

 private:
  alignas(64) std::byte state_[576];
};

// Files are hashed, verified and encrypted in chunks of this size; the last
// chunk of a piece is shorter.
inline constexpr std::size_t kChunkBytes = std::size_t{4} << 20;

// A tensor is divided into canonical blocks of this many bytes of its row-major
// elements, whatever boxes its ranks hold.
inline constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// The sums that make up the hashes of a tensor's blocks. The sum of a block is
// that of a hash of each element and its index, so ranks that hold different
// boxes compute parts of it, which add up. Equal tensors have equal sums on any
// layout. They find damage and differences, but do not withstand someone who
// looks for another tensor with the same sums.
class BlockSums {
 public:
  explicit BlockSums(const TensorInfo& info);

  // Adds elements [begin, end) (row-major in `box`) that lie one after the
  // other at `data`.
  void add(
      const Box& box, std::int64_t begin, std::int64_t end, const void* data);
  void add(const BlockSums& other);

  // By block; blocks that nothing was added to are absent.
  const std::map<std::int64_t, Hash128>& sums() const { return sums_; }
  void set(std::int64_t block, const Hash128& sum) { sums_[block] = sum; }

  std::int64_t num_blocks() const;

  // The Merkle root over all blocks, of the tensor's type and shape too. Throws
  // InvalidArgument if a block is absent.
  Hash128 root() const;

 private:
  TensorInfo info_;
  std::map<std::int64_t, Hash128> sums_;
};

// The root over tensors, by name.
Hash128 root_of(const std::map<std::string, Hash128>& roots);

} // namespace argosy::checkpoint
