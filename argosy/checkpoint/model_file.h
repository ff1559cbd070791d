#pragma once

#include <string>

#include "argosy/checkpoint/state.h"

// A model alone in a folder: save_model() and load_model(). They are
// checkpoints of a State that has nothing else.
namespace argosy {

namespace checkpoint {

// Saves a state to a folder for one checkpoint, in place of what was saved
// there before; until that is done, the old one stays. All ranks of `group`
// (null: of the world) call it alike, which blocks. Throws CheckpointError on
// all of them.
void replace(
    const std::string& url, State& state, const GroupPtr& group = nullptr);

// Loads the models of a state from a file or folder that `argosy ckpt convert`
// reads: checkpoints of Argosy, safetensors, files of torch.save and of C++
// torch::save, DCP. Types are converted. Throws CheckpointError on all ranks if
// something is missing or damaged, or if a checkpoint of Argosy has parameters
// that the models lack; then the state is as it was before. What other files
// have beside is left out.
void load_models(
    const std::string& url, State& state, const GroupPtr& group = nullptr);

} // namespace checkpoint

// Saves the parameters and buffers of a model to a folder or URL. The model is
// whatever checkpoint::State takes: a module, also one of DTensors, a wrapper,
// a stage of a pipeline. All ranks that have a part of it call it alike, and
// each writes its share, as in checkpoint::replace().
template <typename Model>
void save_model(
    Model& model, const std::string& folder, const GroupPtr& group = nullptr) {
  checkpoint::State state(model);
  state.without_random();
  checkpoint::replace(folder, state, group);
}

// Loads a model, in any layout, from what save_model() or any other save wrote,
// or from a file of another format; see checkpoint::load_models().
template <typename Model>
void load_model(
    Model& model, const std::string& url, const GroupPtr& group = nullptr) {
  checkpoint::State state(model);
  state.without_random();
  checkpoint::load_models(url, state, group);
}

} // namespace argosy
