#pragma once

#include <torch/optim/optimizer.h>

#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace argosy::optim {

struct Entry;
struct StateSize;
class StateStore;

using StateDict = std::map<std::string, at::Tensor>;

// What the constructors of torch::optim take: parameters, or groups of them.
struct ParamGroups {
  using Group = torch::optim::OptimizerParamGroup;

  ParamGroups(const std::vector<at::Tensor>& params) : groups{Group(params)} {}
  ParamGroups(std::vector<Group> groups_in) : groups(std::move(groups_in)) {}
  ParamGroups(std::initializer_list<Group> groups_in) : groups(groups_in) {}

  std::vector<Group> groups;
};

// What the optimizers of this folder have in common: a step is one pass over
// the memory of all parameters of a group, on torch's threads, instead of a
// dozen operations on each.
//
// They are torch::optim's to whoever uses them: param_groups(), step(closure),
// state(), schedulers. save() and load() use torch's format, so that
// torch::optim::Adam's checkpoint is one of Adam here and the other way round;
// as there, the options of the groups are not loaded. States are float32 (for
// float64 parameters float64), in one flat buffer per group and kind.
//
// Parameters and gradients are taken where they are: in the buffers of
// FlatParameters, of DataParallel, or of their own. Parameters without gradient
// are skipped. A float16 or bfloat16 parameter has a master weight in float32,
// to which the steps add up; when somebody else writes to the parameter, the
// elements that changed are taken over by the master. Its gradient may be
// float32 (main_grads.h), and is read as it is.
//
// step() throws InvalidArgument when a parameter is not a dense tensor of
// floats on the CPU, or its gradient is sparse and the optimizer does not take
// those; nothing has changed then.
class FusedOptimizer : public torch::optim::Optimizer {
 public:
  ~FusedOptimizer() override;

  at::Tensor step(LossClosure closure = nullptr) override;

  // As torch's, in a fraction of the time.
  void zero_grad();

  // What gradients are multiplied by as they are read, 1 unless set: undoes
  // the scale of a loss without a pass over the gradients.
  void set_grad_scale(double scale) { grad_scale_ = scale; }
  double grad_scale() const { return grad_scale_; }

  // Keeps the states in `store` from now on, those there are too; null: in
  // memory again. state() then has none between steps, state_dict() and save()
  // copy all of them. A step that throws because of the store has updated the
  // parameters of some buckets.
  void set_state_store(std::shared_ptr<StateStore> store);

  // The states by name, "<parameter>.<kind>", for checkpoints. `names` are
  // those of the parameters, in the order of the groups; without, their
  // numbers. Tensors are the optimizer's own but for "<parameter>.step".
  StateDict state_dict(const std::vector<std::string>& names = {});

  // Copies. Parameters of which nothing is there lose their state. Throws
  // InvalidArgument when there is a name or shape that does not belong.
  void load_state_dict(
      const StateDict& states, const std::vector<std::string>& names = {});

 protected:
  // The tensors of a state in the order of the kernel's states, the rest null.
  struct StateTensors {
    static constexpr std::size_t kMost = 3;
    std::array<at::Tensor*, kMost> tensors{};
    std::array<const char*, kMost> names{};
    at::Tensor* master = nullptr;
    std::int64_t* step = nullptr; // where there is a count
    double initial = 0;           // what new ones are filled with
  };

  FusedOptimizer(
      ParamGroups params,
      std::unique_ptr<torch::optim::OptimizerOptions> defaults);

  virtual std::unique_ptr<torch::optim::OptimizerParamState> new_state()
      const = 0;
  virtual StateTensors tensors_of(
      torch::optim::OptimizerParamState& state,
      const torch::optim::OptimizerOptions& options) const = 0;

  // Whether parameters without master have a state.
  virtual bool has_state(const torch::optim::OptimizerOptions&) const {
    return true;
  }

  // One step of parameters of one group.
  virtual void update(
      const torch::optim::OptimizerOptions& options,
      std::vector<Entry>& entries) = 0;

  // One step of a parameter with a sparse gradient. check_sparse() throws when
  // there is no such thing, and is called before anything changes.
  virtual void check_sparse(
      const torch::optim::OptimizerOptions& options) const;
  virtual void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry);

  // To be called when state() has been replaced.
  void adopt_states();

  // While it lives, state() has copies of what is in the store.
  std::shared_ptr<void> states_in_memory() const;

 private:
  struct Impl;

  Entry make_entry(std::size_t group, std::size_t index);
  void prepare_state(std::size_t group, Entry& entry);
  std::vector<std::vector<Entry>> collect();
  void update_group(std::size_t group, std::vector<Entry>& entries);

  std::vector<std::vector<StateSize>> state_sizes() const;
  std::vector<at::Tensor*> copy_states() const;
  void step_by_bucket(std::vector<std::vector<Entry>>& entries);
  void step_bucket(std::size_t group, std::vector<Entry> entries);

  // Calls f(name, key, options, parameter) for all parameters.
  template <typename F>
  void for_each_param(const std::vector<std::string>& names, const F& f);

  std::unique_ptr<Impl> impl_;
  double grad_scale_ = 1;
};

// A state of torch::optim, with a master weight.
template <typename Base>
class Mastered;

// With the types of one optimizer. The definitions are in fused_of.h, for its
// source file.
template <typename OptionsType, typename BaseState>
class FusedOf : public FusedOptimizer {
 public:
  using Options = OptionsType;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  using State = Mastered<BaseState>;

  FusedOf(ParamGroups params, const Options& defaults);

  virtual StateTensors tensors_of(
      State& state, const Options& options) const = 0;
  virtual void update(const Options& options, std::vector<Entry>& entries) = 0;

 private:
  std::unique_ptr<torch::optim::OptimizerParamState> new_state() const final;
  StateTensors tensors_of(
      torch::optim::OptimizerParamState& state,
      const torch::optim::OptimizerOptions& options) const final;
  void update(
      const torch::optim::OptimizerOptions& options,
      std::vector<Entry>& entries) final;
};

} // namespace argosy::optim
