#pragma once

#include <cstddef>
#include <cstdint>

#include "argosy/simd/isa.h"

// The loops under hashes, compiled for each instruction set. All give the same
// results.
namespace argosy::checkpoint {

// A row of a block is this many bytes, as 32-bit words.
inline constexpr std::size_t kRowBytes = 1024;
inline constexpr std::size_t kRowWords = kRowBytes / 4;

// Two 64-bit sums of a block.
inline constexpr std::size_t kLanes = 2;

// The keys of the words of a row, by lane: those of even and of odd words,
// and the upper halves of both again, so that vectors of them can be loaded.
struct RowKeys {
  static constexpr std::size_t kPairs = kRowWords / 2;
  alignas(64) std::uint64_t even[kLanes][kPairs];
  alignas(64) std::uint64_t odd[kLanes][kPairs];
  alignas(64) std::uint64_t even_upper[kLanes][kPairs];
  alignas(64) std::uint64_t odd_upper[kLanes][kPairs];
};

struct HashKernels {
  // Adds to sums[lane] the products of `count` pairs of words at `data` and
  // their keys, from pair `first` of a row on.
  void (*sum_pairs)(
      const RowKeys& keys,
      std::size_t first,
      const unsigned char* data,
      std::size_t count,
      std::uint64_t* sums);
  // XXH3, 128 bits: out[0] is the lower half.
  void (*hash_bytes)(
      const unsigned char* data, std::size_t bytes, std::uint64_t* out);
  // The same of bytes that come in parts. `state` has kHashStateBytes, aligned
  // to 64.
  void (*begin_hash)(void* state);
  void (*continue_hash)(
      void* state, const unsigned char* data, std::size_t bytes);
  void (*end_hash)(const void* state, std::uint64_t* out);
};

inline constexpr std::size_t kHashStateBytes = 576;

extern const HashKernels kBaselineHashKernels;
extern const HashKernels kAvx2HashKernels;
extern const HashKernels kAvx512HashKernels;

const HashKernels& hash_kernels(simd::Isa isa);

} // namespace argosy::checkpoint
