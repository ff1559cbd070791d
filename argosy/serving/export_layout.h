#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "argosy/serving/export_file.h"

// What reader and writer of export files agree on. Not installed.
namespace argosy::serving {

inline constexpr std::array<char, 8> kMagic = {
    'A', 'R', 'G', 'O', 'S', 'R', 'V', '1'};
inline constexpr std::uint64_t kAlignment = 64;
inline constexpr std::uint32_t kNoRow = ~std::uint32_t{0};

// The end of the file. The hash covers all before it.
struct Trailer {
  std::uint64_t directory_at = 0;
  std::uint64_t directory_bytes = 0;
  std::uint64_t hash_low = 0;
  std::uint64_t hash_high = 0;
  std::array<char, 8> magic = kMagic;
};
static_assert(sizeof(Trailer) == 40);
inline constexpr std::size_t kHashedOfTrailer = 16;

// Spreads keys over slots: ids are often regular.
inline std::uint64_t mixed(std::uint64_t key) {
  key ^= key >> 30;
  key *= 0xbf58476d1ce4e5b9;
  key ^= key >> 27;
  key *= 0x94d049bb133111eb;
  return key ^ (key >> 31);
}

std::string to_json(const ExportDirectory& directory);
// Throws InvalidArgument.
ExportDirectory directory_of_json(std::string_view text);

} // namespace argosy::serving
