#pragma once

#include <string>

#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/import/byte_source.h"
#include "argosy/checkpoint/import/tensor_set.h"
#include "argosy/fs/open.h"

// Readers of formats. All throw CheckpointError that names file and place for
// what is damaged, and read no values of tensors.
namespace argosy::checkpoint {

// A committed checkpoint of Argosy: a folder with manifest.json.
TensorSet open_argosy(const fs::Location& folder);

// A safetensors file, or a folder of them as Hugging Face has it, with
// model.safetensors.index.json or without. Pieces of tensors as PyTorch's
// Hugging Face storage writes them are put together. Names without a component
// are those of the model: "fc.weight" -> "model/fc.weight".
TensorSet open_safetensors(const fs::Location& file_or_folder);

// A file of torch.save or of C++'s torch::save.
TensorSet open_torch(const fs::Location& file);

// A folder of PyTorch's distributed checkpoints (torch.distributed.checkpoint).
TensorSet open_dcp(const fs::Location& folder);

// Any of them, told by its contents. Of a folder of checkpoints of Argosy it
// opens the newest that is committed.
TensorSet open_tensors(const std::string& url);

// For the readers above.
inline constexpr const char* kIndexName = "model.safetensors.index.json";
inline constexpr const char* kDcpName = ".metadata";

fs::Location below(const fs::Location& folder, const std::string& name);
bool exists(const fs::Location& file);
std::string url_of(const fs::Location& location);
// Throws CheckpointError unless it names a file below its folder.
void check_relative(const std::string& path, const std::string& where);

struct PickleTensor;
// A view of a storage as a piece whose first element is at `offset`.
SourcePiece piece_of_view(
    const PickleTensor& tensor, Source storage, Shape offset);

} // namespace argosy::checkpoint
