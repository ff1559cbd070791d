#pragma once

#include <cstddef>
#include <cstdint>

// The simd_*.h files are compiled once per instruction set. Everything in them
// is in an anonymous namespace: a function that two translation units shared
// would be kept in one version, perhaps the one that this machine cannot run.
// For the same reason they call nothing of std::.

namespace argosy::comm {
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
} // namespace argosy::comm
