#pragma once

#include <torch/optim/serialize.h>

#include <memory>
#include <utility>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/fused_entry.h"

// The definitions of FusedOf. The source files of the optimizers include it.

namespace argosy::optim {

template <typename Base>
class Mastered : public Base {
 public:
  at::Tensor& master() { return master_; }

  void serialize(torch::serialize::InputArchive& archive) override {
    Base::serialize(archive);
    archive.try_read("master", master_);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    Base::serialize(archive);
    if (master_.defined()) {
      archive.write("master", master_);
    }
  }

 private:
  std::unique_ptr<torch::optim::OptimizerParamState> clone() const override {
    return std::make_unique<Mastered>(*this);
  }

  at::Tensor master_;
};

template <typename Options, typename BaseState>
FusedOf<Options, BaseState>::FusedOf(
    ParamGroups params, const Options& defaults)
    : FusedOptimizer(std::move(params), std::make_unique<Options>(defaults)) {}

template <typename Options, typename BaseState>
void FusedOf<Options, BaseState>::save(
    torch::serialize::OutputArchive& archive) const {
  const auto in_memory = states_in_memory();
  torch::optim::serialize<State, Options>(archive, *this);
}

template <typename Options, typename BaseState>
void FusedOf<Options, BaseState>::load(
    torch::serialize::InputArchive& archive) {
  try {
    torch::optim::serialize<State, Options>(archive, *this);
  } catch (const c10::Error& error) {
    throw InvalidArgument(str_format(
        "[optim.load] {}; expected the states of the same parameters. A "
        "sharded optimizer has pieces of them: states of whole parameters go "
        "through its load_state_dict()",
        error.what_without_backtrace()));
  }
  adopt_states();
}

template <typename Options, typename BaseState>
std::unique_ptr<torch::optim::OptimizerParamState>
FusedOf<Options, BaseState>::new_state() const {
  return std::make_unique<State>();
}

template <typename Options, typename BaseState>
FusedOptimizer::StateTensors FusedOf<Options, BaseState>::tensors_of(
    torch::optim::OptimizerParamState& state,
    const torch::optim::OptimizerOptions& options) const {
  return tensors_of(
      static_cast<State&>(state), static_cast<const Options&>(options));
}

template <typename Options, typename BaseState>
void FusedOf<Options, BaseState>::update(
    const torch::optim::OptimizerOptions& options,
    std::vector<Entry>& entries) {
  update(static_cast<const Options&>(options), entries);
}

} // namespace argosy::optim
