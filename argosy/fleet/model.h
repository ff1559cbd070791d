#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/autocast.h"
#include "argosy/sharding/sharded_core.h"
#include "argosy/training/parallel_model.h"

namespace argosy::fleet {

class LateHook;
class Pairs;
struct Axes;
struct DistributedStrategy;

// What a strategy makes of a model. All ranks call it alike.
struct ModelSetup {
  DataParallelOptions options;
  std::optional<sharding::Level> level; // none: not sharded
  sharding::ShardingOptions sharding;
  bool autocast = false;
  bool is_local = false;
  std::shared_ptr<LateHook> hook;
  std::shared_ptr<Pairs> pairs;
};

// Converts batch norms, casts weights, gives ranks of a tensor parallel group
// the same values, and chooses how gradients are sent.
ModelSetup prepare_model(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Pairs> pairs);

namespace detail {

std::shared_ptr<training::ModelCore> make_core(
    torch::nn::Module& module, const ModelSetup& setup);

void register_model(
    const std::shared_ptr<training::ModelCore>& core,
    torch::nn::Module& module,
    const ModelSetup& setup);

bool is_merging(const Pairs& pairs, const training::ModelCore& core);

// A bfloat16 tensor becomes float32.
void widen(at::Tensor& tensor);

} // namespace detail

// A module that trains as a strategy says: data parallel or sharded. With `amp`
// its forward computes in bfloat16, and what it returns is float32 again. Made
// by distributed_model().
template <typename Module>
class DistributedModel : public training::ParallelModel<Module> {
 public:
  using Base = training::ParallelModel<Module>;

  DistributedModel(Module module, const ModelSetup& setup)
      : Base(
            std::move(module),
            [&](torch::nn::Module& inner) {
              return detail::make_core(inner, setup);
            }),
        autocast_(setup.autocast),
        pairs_(setup.pairs) {
    detail::register_model(
        this->core(), training::as_module(this->module()), setup);
  }

  template <typename... Args>
  decltype(auto) forward(Args&&... args) {
    std::optional<optim::AutoCast> cast;
    if (autocast_) {
      cast.emplace();
    }
    auto result = Base::forward(std::forward<Args>(args)...);
    if (autocast_) {
      training::for_each_tensor(result, detail::widen);
    }
    return result;
  }

  template <typename... Args>
  decltype(auto) operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // Nothing while gradient_merge gathers gradients.
  void zero_grad() {
    if (!detail::is_merging(*pairs_, *this->core())) {
      Base::zero_grad();
    }
  }

 private:
  bool autocast_;
  std::shared_ptr<Pairs> pairs_;
};

} // namespace argosy::fleet
