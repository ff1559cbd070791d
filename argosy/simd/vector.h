#pragma once

#include <cstddef>
#include <cstdint>

// Vectors, and elements in memory, for kernels that are compiled once for each
// instruction set. A source of kernels includes one of baseline.h, avx2.h and
// avx512.h, then formats.h, then its loops.
//
// All of it, and all that uses it, stands in anonymous namespaces: of a
// function that several translation units share, the linker keeps one version,
// perhaps one that this machine cannot run. For the same reason nothing here
// calls a function of std::.

namespace argosy::simd {
namespace {

using std::size_t;

using Byte = unsigned char;

template <typename T, size_t kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};

template <typename V>
inline V load(const Byte* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}

template <typename V>
inline void store(Byte* to, V value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

} // namespace
} // namespace argosy::simd
