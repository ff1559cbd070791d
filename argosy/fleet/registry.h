#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/data_parallel/bucket_hook.h"

namespace argosy::training {
class ModelCore;
} // namespace argosy::training

namespace argosy::sharding {
class ShardedCore;
} // namespace argosy::sharding

namespace argosy::fleet {

class PsModel;
class SpreadCore;

// Identifies a parameter: all handles to it share a TensorImpl.
using ParameterId = const void*;

// A bucket hook that forwards to another, set later. Deep gradient compression
// needs the momentum of the optimizer, which may be made after the model.
class DeferredHook final : public data_parallel::BucketHook {
 public:
  void set(std::shared_ptr<data_parallel::BucketHook> hook) {
    hook_ = std::move(hook);
  }

  // Throws InvalidArgument before set().
  void start(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;
  void finish(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;
  void abandon(
      const data_parallel::GradBucket& bucket, const GroupPtr& group) override;
  void set_loss_scale(double scale) override;
  void settle(bool taken) override;
  data_parallel::HookMemory memory() const override;
  void set_memory(const data_parallel::HookMemory& memory) override;

 private:
  std::shared_ptr<data_parallel::BucketHook> hook_;
};

// A model as the registry and its optimizers see it.
struct RegisteredModel {
  std::weak_ptr<training::ModelCore> core;
  std::map<ParameterId, std::string> names;
  bool is_local = false;  // local SGD: gradients are never reduced
  bool is_spread = false; // parameters are DTensors
  std::shared_ptr<DeferredHook>
      hook; // null unless an optimizer must provide it
  // What gradients are sent by; null: as they are.
  std::shared_ptr<data_parallel::BucketHook> compression;
  std::shared_ptr<PsModel> served; // null: nothing is on servers
};

// An optimizer as the registry and its models see it.
class RegisteredOptimizer {
 public:
  virtual ~RegisteredOptimizer() = default;
  virtual bool holds(ParameterId parameter) const = 0;
  // Whether the next step() updates parameters, so the next backward must
  // reduce the gradients.
  virtual bool will_step() const = 0;
  virtual bool is_merging() const = 0;
  // Returns the hook that a DeferredHook forwards to; null if none is needed.
  virtual std::shared_ptr<data_parallel::BucketHook> hook() = 0;
  // Called with what sends gradients of its parameters, which must know of the
  // scale of losses and of steps that are skipped.
  virtual void compress_with(
      const std::shared_ptr<data_parallel::BucketHook>& hook) = 0;
  // Called when a model that holds its parameters is sharded: from now on the
  // optimizer steps this rank's shards.
  virtual void shard(const std::shared_ptr<sharding::ShardedCore>& core) = 0;
  // Called when a model of DTensors holds its parameters.
  virtual void spread_over(const std::shared_ptr<SpreadCore>& core) = 0;
  // Called when servers hold parameters of a model that it steps.
  virtual void serve(const std::shared_ptr<PsModel>& model) = 0;
};

// Finds out which models and optimizers of one rank share parameters, in
// whatever order they are made. Does not keep either alive. Not thread-safe.
class Registry {
 public:
  void add(RegisteredModel model);
  // Throws InvalidArgument when a model is spread and the optimizer holds
  // parameters of no model: it would never see a gradient.
  void add(const std::shared_ptr<RegisteredOptimizer>& optimizer);

  bool has_models() const { return !models_.empty(); }

  // Whether an optimizer that was added holds the parameter.
  bool is_held(ParameterId parameter) const;

  // Returns the name of a parameter in the first model that holds it, or "".
  std::string name_of(ParameterId parameter) const;

  // Tells every model whether its next backward reduces gradients: yes if one
  // of its optimizers will step with them, or if it has no optimizer.
  void update_sync() const;

  // Whether an optimizer of this model accumulates gradients of several
  // batches.
  bool is_merging(const training::ModelCore* core) const;

 private:
  struct Model {
    RegisteredModel side;
    std::vector<std::weak_ptr<RegisteredOptimizer>> optimizers;
  };

  // Returns whether the two share a parameter.
  static bool link(
      Model& model, const std::shared_ptr<RegisteredOptimizer>& with);

  std::vector<Model> models_;
  std::vector<std::weak_ptr<RegisteredOptimizer>> optimizers_;
};

} // namespace argosy::fleet
