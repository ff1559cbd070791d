#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "argosy/checkpoint/hash.h"
#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/checkpoint/tensor_info.h"

// Tensors of a checkpoint of any format: where their bytes lie.
namespace argosy::checkpoint {

// A box of a tensor in a source.
struct SourcePiece {
  Box box;
  Source source;
  std::uint64_t offset = 0; // of the box's first element
  Shape strides{};          // in elements; empty: row-major, without gaps
  // Of checkpoints of Argosy, as in PieceRecord.
  std::uint32_t file = 0;
  std::vector<Hash128> hashes{};
  std::vector<Hash128> tags{};
};

struct SourceTensor {
  TensorInfo info;
  std::vector<SourcePiece> pieces{}; // together the whole
  std::optional<Hash128> root{};
};

enum class Format { Argosy, Safetensors, Torch, Dcp };
std::string_view to_string(Format format);

struct TensorSet {
  Format format = Format::Argosy;
  std::string url{};                   // for messages
  std::vector<SourceTensor> tensors{}; // by name, ascending
  std::int64_t step = 0;
  std::string created{};
  nlohmann::json values = nlohmann::json::object();
  nlohmann::json layout = nlohmann::json::object();
  std::optional<Hash128> root{};
  std::optional<Encryption> encryption{};

  // Null if there is no tensor of that name.
  const SourceTensor* find(std::string_view name) const;
  std::uint64_t tensor_bytes() const;
};

std::uint64_t bytes_of(const TensorInfo& info);

// Sorts the tensors by name. Throws CheckpointError for two of one name.
void sort_tensors(TensorSet& set);

} // namespace argosy::checkpoint
