#pragma once

#include <filesystem>

namespace torch::nn {
class Module;
}

// One file for a module of DTensors, with whole tensors in it: the file that
// torch::save() writes of the same module on one process. torch::load() reads
// it there, load_model() on any mesh.
namespace argosy {

// Gathers one parameter or buffer after the other and lets the first rank of
// the mesh write them; rank 0 when no parameter is a DTensor. All ranks of the
// mesh (or all ranks) call it; blocks. The file is complete or absent. Throws
// InvalidArgument when parameters are on several meshes, or on another stage of
// a pipeline (see CutStage::save()), and SystemError on all ranks when the file
// cannot be written.
void save_model(
    const torch::nn::Module& module, const std::filesystem::path& path);

// Reads such a file, or one that torch::save() wrote, into a module: each rank
// takes its parts. Placements, and the tensors that an optimizer holds, stay.
// States that are on another stage of a pipeline are left out. Sends nothing.
// Throws InvalidArgument when a state has another shape in the file.
void load_model(torch::nn::Module& module, const std::filesystem::path& path);

} // namespace argosy
