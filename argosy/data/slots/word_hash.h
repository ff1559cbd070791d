#pragma once

#include <cstdint>
#include <string_view>

namespace argosy::data {

// The id of a word: 64-bit FNV-1a, which is a few lines in any language.
constexpr std::uint64_t hash_of_word(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : word) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

} // namespace argosy::data
