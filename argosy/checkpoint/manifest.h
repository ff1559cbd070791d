#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/tensor_info.h"

// manifest.json: what a checkpoint consists of. A folder without one is not a
// checkpoint. docs/checkpoint-format.md describes the format.
namespace argosy::checkpoint {

inline constexpr int kManifestVersion = 1;
inline constexpr const char* kManifestName = "manifest.json";

// What stands in front of the digits of the manifest's own hash, its last
// field. The hash is that of the text before it.
inline constexpr const char* kManifestHashField = ",\n\"hash\":\"";

// A safetensors file of the checkpoint.
struct FileRecord {
  std::string path; // relative to the folder; no "..", not absolute
  std::uint64_t bytes = 0;

  bool operator==(const FileRecord&) const = default;
};

// A box of a tensor in a file: row-major, without gaps.
struct PieceRecord {
  Box box;
  std::uint32_t file = 0;   // index in Manifest::files
  std::uint64_t offset = 0; // of the first byte, from the beginning of the file
  std::vector<Hash128> hashes; // of each chunk (kChunkBytes) of its bytes
  // Of each chunk, if the checkpoint is encrypted: AES-GCM's tag. Hashes are
  // those of the encrypted bytes.
  std::vector<Hash128> tags;

  bool operator==(const PieceRecord&) const = default;
};

struct TensorRecord {
  TensorInfo info;
  std::vector<PieceRecord> pieces; // disjoint; together the whole tensor
  std::optional<Hash128> root;     // of BlockSums; none if not computed

  bool operator==(const TensorRecord&) const = default;
};

// How the bytes of tensors are encrypted. Headers and the manifest are not.
struct Encryption {
  std::string algorithm = "AES-256-GCM";
  std::string salt;  // hex; the key of this checkpoint comes of it and the key
  std::string check; // hex; tells a wrong key from damage

  bool operator==(const Encryption&) const = default;
};

struct Manifest {
  int version = kManifestVersion;
  std::int64_t step = 0;
  std::string created; // UTC, 2026-01-31T12:00:00Z
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;                // by name, ascending
  nlohmann::json values = nlohmann::json::object(); // training values
  nlohmann::json layout = nlohmann::json::object(); // ranks, mesh, strategy
  std::optional<Hash128> root; // over the tensors that are not of one rank
  std::optional<Encryption> encryption;

  // Null if there is no tensor of that name.
  const TensorRecord* find(std::string_view name) const;
  std::uint64_t tensor_bytes() const;

  bool operator==(const Manifest&) const = default;
};

// Whether a tensor belongs to one rank (its random numbers, its position in the
// data) and not to the training state that all layouts share: "rank/...".
bool is_of_rank(std::string_view name);

// The root over all tensors that are not of one rank; none if one of them has
// no root.
std::optional<Hash128> root_of(const Manifest& manifest);

// Throws InvalidArgument for values that JSON does not have: NaN, infinity,
// text that is not UTF-8.
std::string to_text(const Manifest& manifest);

// Parses and checks: the hash of the text, if it has one, versions, types,
// limits, boxes inside of shapes that cover them once, bytes inside of files,
// numbers of hashes. Throws CheckpointError that names `path` and the place in
// the text. Allocates no more than a small multiple of the text.
Manifest parse_manifest(std::string_view text, const std::string& path);

} // namespace argosy::checkpoint
