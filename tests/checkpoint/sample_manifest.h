#pragma once

#include <string>

#include "argosy/checkpoint/manifest.h"

namespace argosy::checkpoint {

// Two files with pieces of a matrix, an empty tensor, one of three chunks, a
// scalar, and one that is of a rank.
inline Manifest sample_manifest(bool encrypted = false) {
  std::uint64_t next = 1;
  const auto hashes = [&](int count) {
    std::vector<Hash128> made;
    for (int i = 0; i < count; ++i) {
      made.push_back({next * 0x9e3779b97f4a7c15, ++next});
    }
    return made;
  };
  const auto piece =
      [&](Box box, std::uint32_t file, std::uint64_t at, int chunks) {
        return PieceRecord{
            std::move(box),
            file,
            at,
            hashes(chunks),
            hashes(encrypted ? chunks : 0)};
      };
  Manifest manifest;
  manifest.step = 12;
  manifest.created = "2026-01-31T12:00:00Z";
  manifest.files = {
      {"rank-0.safetensors", 4096 + (10 << 20) + 500},
      {"rank-1.safetensors", 4096 + 500}};
  manifest.tensors = {
      {{"model/a\xc3\xa9 \"b\".weight", DType::kF32, {10, 4}},
       {piece({{0, 0}, {5, 4}}, 0, 4096, 1),
        piece({{5, 0}, {5, 2}}, 1, 4096, 1),
        piece({{5, 2}, {5, 2}}, 1, 4136, 1)},
       Hash128{1, 2}},
      {{"model/empty", DType::kI16, {0, 7}},
       {piece({{0, 0}, {0, 7}}, 1, 4176, 0)},
       Hash128{3, 4}},
      {{"model/large", DType::kBF16, {5 << 20}},
       {piece({{0}, {5 << 20}}, 0, 4176, 3)},
       Hash128{5, 6}},
      {{"model/scalar", DType::kF64, {}},
       {piece({}, 1, 4176, 1)},
       Hash128{0, UINT64_MAX}},
      {{"rank/0/rng", DType::kU8, {4}}, {piece({{0}, {4}}, 1, 4184, 1)}, {}}};
  manifest.values = {
      {"epoch", 3}, {"loss", 0.1}, {"names", {"x", nullptr, true}}};
  manifest.layout = {{"ranks", 2}, {"mesh", {{"dp", 2}}}};
  manifest.root = Hash128{9, 9};
  if (encrypted) {
    manifest.encryption =
        Encryption{"AES-256-GCM", std::string(64, 'a'), std::string(32, 'b')};
  }
  return manifest;
}

} // namespace argosy::checkpoint
