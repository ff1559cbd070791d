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
class PartSums;
class StateStore;

using StateDict = std::map<std::string, at::Tensor>;

// The argument of optimizers' constructors, as in torch::optim: parameters, or
// groups of parameters.
struct ParamGroups {
  using Group = torch::optim::OptimizerParamGroup;

  ParamGroups(const std::vector<at::Tensor>& params) : groups{Group(params)} {}
  ParamGroups(std::vector<Group> groups_in) : groups(std::move(groups_in)) {}
  ParamGroups(std::initializer_list<Group> groups_in) : groups(groups_in) {}

  std::vector<Group> groups;
};

// The base class of the optimizers in this folder. A step is one pass over the
// memory of all parameters of a group, on torch's threads, instead of a dozen
// operations on each parameter.
//
// They replace those of torch::optim: param_groups(), step(closure), state()
// and schedulers work alike. save() and load() use torch's format, so that Adam
// here reads a checkpoint of torch::optim::Adam, and the reverse; as there,
// load() does not restore the options of the groups. State is float32 (float64
// for float64 parameters), in one flat buffer for each group and kind.
//
// A step works on parameters and gradients where they are: in the buffers of
// FlatParameters or DataParallel, or in memory of their own. It skips
// parameters without a gradient. A float16 or bfloat16 parameter has a float32
// master weight, which accumulates the steps. If other code writes to the
// parameter, the master takes over the elements that changed. The gradient of
// such a parameter may be float32 (main_grads.h).
//
// step() throws InvalidArgument, before it changes anything, if a parameter is
// not a dense tensor of floats on the CPU, or if a gradient is sparse and the
// optimizer does not support that. Not thread-safe.
class FusedOptimizer : public torch::optim::Optimizer {
 public:
  ~FusedOptimizer() override;

  at::Tensor step(LossClosure closure = nullptr) override;

  // Zeroes all gradients in one pass, faster than torch's zero_grad().
  void zero_grad();

  // Multiplies gradients by `scale` while reading them; 1 by default. Undoes
  // the scale of a loss without a pass over the gradients.
  void set_grad_scale(double scale) { grad_scale_ = scale; }
  double grad_scale() const { return grad_scale_; }

  // Keeps the state in `store` from now on, including existing state; null: in
  // memory again. With a store, state() is empty between steps, and
  // state_dict() and save() copy everything. If the store throws during a step,
  // the parameters of some buffers are updated and others are not.
  void set_state_store(std::shared_ptr<StateStore> store);
  bool has_state_store() const;

  // For parameters that are parts of others, as those of ZeRO: how LAMB and
  // LARS get the norms of whole parameters. step() is then collective over the
  // ranks that hold the parts. Null: the parameters are whole, DTensors, or
  // those of tensor parallel layers.
  void set_part_sums(std::shared_ptr<PartSums> part_sums);

  // The kinds of state that parameters of a group with these options have;
  // without master weights and step counts.
  std::vector<std::string> state_kinds(
      const torch::optim::OptimizerOptions& options) const;

  // The state by name, "<parameter>.<kind>", for checkpoints. `names` are the
  // names of the parameters in the order of the groups; if empty, their
  // numbers. The tensors alias the optimizer's state, except
  // "<parameter>.step".
  StateDict state_dict(const std::vector<std::string>& names = {});

  // The kinds that state_dict() may have, except "step".
  std::vector<std::string> state_kinds() const;

  // Copies `states` into the optimizer. Parameters that `states` does not
  // mention lose their state. Throws InvalidArgument for an unknown name or a
  // wrong shape.
  void load_state_dict(
      const StateDict& states, const std::vector<std::string>& names = {});

 protected:
  // The tensors of one parameter's state, in the order in which the kernel
  // takes them. Unused entries are null.
  struct StateTensors {
    static constexpr std::size_t kMost = 3;
    std::array<at::Tensor*, kMost> tensors{};
    std::array<const char*, kMost> names{};
    at::Tensor* master = nullptr;
    std::int64_t* step = nullptr; // null if the state has no step count
    double initial = 0;           // value of new tensors
  };

  FusedOptimizer(
      ParamGroups params,
      std::unique_ptr<torch::optim::OptimizerOptions> defaults);

  virtual std::unique_ptr<torch::optim::OptimizerParamState> new_state()
      const = 0;
  virtual StateTensors tensors_of(
      torch::optim::OptimizerParamState& state,
      const torch::optim::OptimizerOptions& options) const = 0;

  // Whether parameters without a master weight have state.
  virtual bool has_state(const torch::optim::OptimizerOptions&) const {
    return true;
  }

  // For optimizers that need norms of whole parameters: measure() puts what the
  // norms of each entry are made of into the entry. Before update(), these sums
  // are added up over the ranks that hold parts of the parameter.
  virtual bool measures(const torch::optim::OptimizerOptions&) const {
    return false;
  }
  virtual void measure(
      const torch::optim::OptimizerOptions&, std::vector<Entry>&) {}

  // Updates parameters of one group.
  virtual void update(
      const torch::optim::OptimizerOptions& options,
      std::vector<Entry>& entries) = 0;

  // Updates a parameter with a sparse gradient. check_sparse() is called before
  // anything changes, and throws if the optimizer does not support that.
  virtual void check_sparse(
      const torch::optim::OptimizerOptions& options) const;
  virtual void update_sparse(
      const torch::optim::OptimizerOptions& options, Entry& entry);

  // Call it after replacing state().
  void adopt_states();

  // While the result lives, state() has copies of what is in the store.
  std::shared_ptr<void> states_in_memory() const;

 private:
  struct Impl;

  Entry make_entry(std::size_t group, std::size_t index);
  void prepare_state(std::size_t group, Entry& entry);
  std::vector<std::vector<Entry>> collect();
  void update_group(std::size_t group, std::vector<Entry>& entries);

  std::vector<std::vector<StateSize>> state_sizes() const;
  std::vector<at::Tensor*> copy_states() const;
  void step_by_buffer(std::vector<std::vector<Entry>>& entries);
  void release_state(std::size_t group, const Entry& entry);
  bool exchanges_sums(
      std::size_t group, const std::vector<Entry>& entries) const;
  template <typename F>
  void for_each_buffer(
      std::size_t group, std::vector<Entry>& entries, const F& f);

  // Calls f(name, key, options, parameter) for all parameters.
  template <typename F>
  void for_each_param(const std::vector<std::string>& names, const F& f);

  std::unique_ptr<Impl> impl_;
  double grad_scale_ = 1;
};

// A parameter state of torch::optim with a master weight.
template <typename Base>
class Mastered;

// FusedOptimizer with the types of one optimizer. Its source file includes the
// definitions from fused_of.h.
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
