#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace argosy::data_parallel {
class BucketHook;
} // namespace argosy::data_parallel

namespace argosy::training {
class ModelCore;
} // namespace argosy::training

namespace argosy::sharding {
class ShardedCore;
} // namespace argosy::sharding

namespace argosy::fleet {

class LateHook;

// A parameter, whatever handle there is to it.
using ParameterId = const void*;

// A model as its optimizers see it.
struct ModelSide {
  std::weak_ptr<training::ModelCore> core;
  std::map<ParameterId, std::string> names;
  bool is_local = false;          // its gradients are never sent
  std::shared_ptr<LateHook> hook; // null unless an optimizer is to set it
};

// An optimizer as its models see it.
class OptimizerSide {
 public:
  virtual ~OptimizerSide() = default;
  virtual bool holds(ParameterId parameter) const = 0;
  // Whether the next gradients are those of a step.
  virtual bool will_step() const = 0;
  virtual bool is_merging() const = 0;
  // What a LateHook becomes; null when it has nothing to say.
  virtual std::shared_ptr<data_parallel::BucketHook> hook() = 0;
  // A model with its parameters is sharded: it steps parts of them.
  virtual void shard(const std::shared_ptr<sharding::ShardedCore>& core) = 0;
};

// Which models and optimizers of one rank have parameters in common, in
// whatever order they were made. Holds neither alive.
class Pairs {
 public:
  void add(ModelSide model);
  void add(const std::shared_ptr<OptimizerSide>& optimizer);

  bool has_models() const { return !models_.empty(); }

  // The name that the first model has for a parameter, or "".
  std::string name_of(ParameterId parameter) const;

  // Tells every model whether its next gradients are averaged: when one of its
  // optimizers steps with them, or it has none.
  void settle() const;

  // Whether a model's gradients wait for those of further batches.
  bool is_merging(const training::ModelCore* core) const;

 private:
  struct Model {
    ModelSide side;
    std::vector<std::weak_ptr<OptimizerSide>> optimizers;
  };

  static void link(Model& model, const std::shared_ptr<OptimizerSide>& with);

  std::vector<Model> models_;
  std::vector<std::weak_ptr<OptimizerSide>> optimizers_;
};

} // namespace argosy::fleet
