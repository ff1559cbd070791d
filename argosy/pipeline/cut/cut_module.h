#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/cut.h"
#include "argosy/pipeline/cut/part_runner.h"
#include "argosy/pipeline/cut/program.h"
#include "argosy/pipeline/cut/spread.h"

namespace argosy::pipeline {

// How to cut a module: at given points, or else into parts of equal weight.
struct CutRule {
  enum class Weight : std::uint8_t {
    kWork,   // estimated from shapes
    kStates, // bytes of parameters and buffers
    kTime,   // measured times of the ops of forward
  };

  SplitSpec points; // one fewer than parts
  int parts = 1;    // used if there are no points
  Weight weight = Weight::kWork;
  // Makes the places of the cuts equal on all ranks. What decides on them may
  // differ: measured times, and shapes where tensor parallel ranks hold parts
  // of different sizes.
  std::function<void(std::vector<double>&)> make_equal;
};

// An unchanged module whose parts can run separately. It records the forward
// for the shapes of the examples (of one microbatch), and again whenever the
// input shapes, the training mode or autocast change. Each recording runs the
// whole forward once, on zeros where this rank has no values. All ranks that
// share the work construct it alike, with examples of equal shapes.
//
// Not thread-safe.
class CutModule {
 public:
  // Throws InvalidArgument as record() and cut() do.
  CutModule(
      std::shared_ptr<torch::nn::Module> module,
      Forward forward,
      Tensors examples,
      const CutRule& rule,
      std::optional<Spread> spread = {});

  int num_parts() const { return static_cast<int>(cuts_.parts.size()); }

  // Runs a part on what received(part) describes: the module's inputs, or what
  // the previous part returned. `inputs` are the metas of the module's inputs;
  // by default those of the examples.
  Tensors forward(int part, Tensors given, const Metas& inputs);
  Tensors forward(int part, Tensors given);

  // Records for these inputs unless that has been done.
  void prepare(const Metas& inputs) { runners_for(inputs); }

  // Metas of the examples, and of what a part receives and sends for them.
  Metas inputs() const { return metas_of(examples_); }
  Metas received(int part) const;
  Metas sent(int part) const;

  // Names of the parameters and buffers that a part uses; and, for those that
  // several parts use, the parts.
  std::vector<std::string> state_names(int part) const;
  const std::map<std::string, std::vector<int>>& shared() const {
    return cuts_.shared;
  }

  // Releases the memory of all parameters and buffers that none of `parts`
  // uses; they become meta tensors, and only `parts` can run afterwards. Then
  // places states as the spread says, and records again. States that `parts`
  // use are materialized if the module was made under DeferredInit.
  void keep_only(const std::vector<int>& parts);

  // Returns a module with only the parameters and buffers of `parts`, under
  // their original names. Its train() and eval() also switch the whole module.
  std::shared_ptr<torch::nn::Module> states_of(const std::vector<int>& parts);

  const Graph& graph() const { return program_->graph; }
  const Cuts& cuts() const { return cuts_; }

 private:
  using Runners = std::vector<PartRunner>; // by part

  std::vector<std::int64_t> key_of(const Metas& inputs) const;
  const Runners& runners_for(const Metas& inputs);
  Runners make_runners(const Metas& inputs) const;
  Tensors examples_of(const Metas& inputs) const;
  void check_states(const Graph& graph, const Cuts& cuts) const;
  bool uses(const std::vector<int>& parts, const std::string& state) const;

  const std::shared_ptr<torch::nn::Module> module_;
  const Forward forward_;
  const Tensors examples_; // plain: with a spread, this rank's parts
  const std::optional<Spread> spread_;
  // Of the examples' shapes.
  const std::shared_ptr<const Program> program_;
  const Cuts cuts_;
  // Keyed by shapes, training mode and autocast.
  std::map<std::vector<std::int64_t>, Runners> runners_;
};

} // namespace argosy::pipeline
