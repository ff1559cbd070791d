#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/pipeline/cut/cut.h"
#include "argosy/pipeline/cut/part_runner.h"
#include "argosy/pipeline/cut/program.h"

namespace argosy::pipeline {

// Where a module is cut: at points, or else into parts of equal weight.
struct CutRule {
  enum class Weight : std::uint8_t {
    kWork,   // estimated from shapes
    kStates, // bytes of parameters and buffers
    kTime,   // of the ops of forward, measured
  };

  SplitSpec points; // one fewer than parts
  int parts = 1;    // where there are no points
  Weight weight = Weight::kWork;
  // Makes measured weights equal on all ranks.
  std::function<void(std::vector<double>&)> agree;
};

// An unchanged module of which parts can be run by themselves. Its forward is
// recorded for the shapes of the examples (of a microbatch), and again when
// inputs of other shapes come, or when the training mode or autocast is
// another. Each time the whole forward runs once, on zeros where this rank has
// no values. All ranks that share the work make it alike, of equal shapes.
//
// For one thread at a time.
class CutModule {
 public:
  // Throws InvalidArgument as record() and cut() do.
  CutModule(
      std::shared_ptr<torch::nn::Module> module,
      Forward forward,
      Tensors examples,
      const CutRule& rule);

  int num_parts() const { return static_cast<int>(cuts_.parts.size()); }

  // Takes what received(part) says: the module's inputs, or what the part
  // before returned. `inputs` are shapes and types of the module's inputs;
  // without, those of the examples.
  Tensors forward(int part, Tensors given, const Metas& inputs);
  Tensors forward(int part, Tensors given);

  // Shapes and types of the examples, and at the borders of a part for them.
  Metas inputs() const { return metas_of(examples_); }
  Metas received(int part) const;
  Metas sent(int part) const;

  // Of parameters and buffers that a part uses, and, by the name of those that
  // several use, the parts.
  std::vector<std::string> state_names(int part) const;
  const std::map<std::string, std::vector<int>>& shared() const {
    return cuts_.shared;
  }

  // Releases the memory of all parameters and buffers that none of the parts
  // uses: they become meta tensors. Only these parts can be run then. Those
  // that they use get their values if the module was made under DeferredInit.
  void keep_only(const std::vector<int>& parts);

  // A module with just the parameters and buffers of those parts, under their
  // names. Its train() and eval() are those of the whole.
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
  const Tensors examples_;
  // Of the examples.
  const std::shared_ptr<const Program> program_;
  const Cuts cuts_;
  // By shapes, training mode and autocast.
  std::map<std::vector<std::int64_t>, Runners> runners_;
};

} // namespace argosy::pipeline
