#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/convert/name_rules.h"
#include "argosy/checkpoint/import/tensor_set.h"
#include "argosy/checkpoint/manifest.h"
#include "argosy/fs/open.h"

// Writes checkpoints in other formats and layouts. Values are read while they
// are written, a chunk at a time, and verified where the source has hashes: the
// memory does not depend on the size. What exists is never overwritten. All
// throw CheckpointError, InvalidArgument, FsError.
namespace argosy::checkpoint {

struct Progress {
  std::string what; // the file
  std::uint64_t bytes = 0;
  std::uint64_t total = 0;
};
// Called by the thread that works, after each chunk.
using OnConvert = std::function<void(const Progress&)>;

struct CopyContext {
  const Cipher* source_cipher = nullptr; // of an encrypted source
  OnConvert on_progress{};
};

// The tensors under their new names. Throws InvalidArgument if two get the
// same.
TensorSet renamed(TensorSet set, const NameRules& rules);

// What other programs read: the model's tensors, without "model/" in front of
// their names. With `all`, other components too, with their names as they are.
TensorSet for_export(TensorSet set, bool all);

// One safetensors file.
void write_safetensors(
    const TensorSet& set, const fs::Location& file, const CopyContext& context);

// A folder as Hugging Face has it: model.safetensors, or files of at most
// `most_bytes` and an index, which comes last.
void write_hugging_face(
    const TensorSet& set,
    const fs::Location& folder,
    std::uint64_t most_bytes,
    const CopyContext& context);

// A file that torch.load(weights_only=True) reads: a dict of tensors; tensors
// with a component in their name ("optimizer/...") stand in a dict of its name.
void write_torch(
    const TensorSet& set, const fs::Location& file, const CopyContext& context);

// A folder of torch.distributed.checkpoint (DCP), with the same dicts.
void write_dcp(
    const TensorSet& set,
    const fs::Location& folder,
    const CopyContext& context);

struct SplitOptions {
  int ranks = 1;
  NameRules dims{};               // see plan_split()
  const Cipher* cipher = nullptr; // encrypts
};

// A checkpoint of Argosy, whose manifest is written last. Returns it.
// Throws CheckpointError if a tensor's values do not have the root that the
// source says.
Manifest write_argosy(
    const TensorSet& set,
    const fs::Location& folder,
    const SplitOptions& split,
    const CopyContext& context);

} // namespace argosy::checkpoint
