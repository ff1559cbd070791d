#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "argosy/data_parallel/data_parallel.h"
#include "argosy/optim/autocast.h"
#include "argosy/recomputation/modules.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/sharding/sharded_core.h"
#include "argosy/training/parallel_model.h"

namespace argosy::fleet {

class DeferredHook;
class PsModel;
class Registry;
struct Axes;
class InputCheck;
class SpreadCore;
struct DistributedStrategy;
struct RecomputeConfigs;

// How the gradients of a model of DTensors are sent and kept.
struct SpreadSetup {
  // Null: sums as they are. Else it compresses what the optimizer asks for.
  std::shared_ptr<data_parallel::BucketHook> hook;
  std::optional<c10::ScalarType> sent_type; // none: their own
  bool main_grad = false;
};

// How distributed_model() wraps a model, derived from a strategy.
struct ModelSetup {
  DataParallelOptions options;
  std::optional<sharding::Level> level; // nullopt: plain data parallel
  sharding::ShardingOptions sharding;
  bool autocast = false;
  optim::AutoCastLists autocast_lists;
  // Null: none, or modules of a pipeline's stages, which see to it themselves.
  std::shared_ptr<const RecomputedModules> recomputed;
  bool is_local = false; // local SGD: gradients are never reduced
  std::shared_ptr<DeferredHook>
      hook; // null unless the optimizer provides it (dgc)
  // None unless parallelize() has made the parameters DTensors.
  std::optional<SpreadSetup> spread;
  // Null unless ranks of tensor parallelism must be given the same inputs.
  std::shared_ptr<InputCheck> input_check;
  std::shared_ptr<PsModel> served; // null: nothing is on servers
  std::shared_ptr<Registry> registry;
};

// Derives the setup, and changes the module as the strategy says: converts
// batch norms (sync_batch_norm), casts weights to bfloat16 (use_pure_bf16), and
// broadcasts replicated parameters within the tensor parallel group. All ranks
// call it alike.
ModelSetup prepare_model(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Registry> registry);

// Empty unless the strategy has `amp`.
optim::AutoCastLists autocast_lists(const DistributedStrategy& strategy);

// The modules of a prepared model that run again in backward; null if the
// strategy has no `recompute`.
std::shared_ptr<const RecomputedModules> recomputed_of(
    const torch::nn::Module& module, const DistributedStrategy& strategy);
RecomputeOptions recompute_options(const RecomputeConfigs& configs);

namespace detail {

std::shared_ptr<training::ModelCore> make_core(
    torch::nn::Module& module, const ModelSetup& setup);

void register_model(
    const std::shared_ptr<training::ModelCore>& core,
    torch::nn::Module& module,
    const ModelSetup& setup);

bool is_merging(const Registry& registry, const training::ModelCore& core);

// Null unless the core is that of a model of DTensors.
std::shared_ptr<SpreadCore> as_spread(
    const std::shared_ptr<training::ModelCore>& core);

// Makes DTensors of plain tensors among the inputs; whether there were any.
bool enter(const SpreadCore& core, at::Tensor& input);
// The counterpart, for outputs: this rank's part.
void leave(const SpreadCore& core, at::Tensor& output);

// Compares the tensors with those of the other ranks; see InputCheck.
void check_inputs(InputCheck& check, const std::vector<at::Tensor>& inputs);

// Converts a bfloat16 tensor to float32; leaves others alone.
void widen(at::Tensor& tensor);

} // namespace detail

// A module wrapped as a strategy says: data parallel or sharded, or spread over
// a mesh if parallelize() has made its parameters DTensors. Then plain inputs
// are this rank's part of the batch (dim 0), and outputs are, too; give inputs
// that are no batches as DTensors. With `amp`,
// forward computes in bfloat16 and returns float32. Made by
// Fleet::distributed_model(); see training::ParallelModel for the rest of its
// interface.
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
        autocast_lists_(setup.autocast_lists),
        recomputed_(setup.recomputed),
        input_check_(setup.input_check),
        spread_(detail::as_spread(this->core())),
        registry_(setup.registry) {
    detail::register_model(
        this->core(), training::as_module(this->module()), setup);
  }

  template <typename... Args>
  decltype(auto) forward(Args&&... args) {
    if (input_check_ != nullptr) {
      std::vector<at::Tensor> inputs;
      const auto add = [&](const at::Tensor& each) { inputs.push_back(each); };
      (training::for_each_tensor(args, add), ...);
      detail::check_inputs(*input_check_, inputs);
    }
    std::optional<optim::AutoCast> cast;
    if (autocast_) {
      cast.emplace(true, c10::kBFloat16, autocast_lists_);
    }
    auto result = [&] {
      std::optional<RecomputedModules::Scope> again;
      if (recomputed_) {
        again.emplace(*recomputed_);
      }
      return spread_ != nullptr ? forward_spread(std::forward<Args>(args)...)
                                : Base::forward(std::forward<Args>(args)...);
    }();
    if (autocast_) {
      training::for_each_tensor(result, detail::widen);
    }
    return result;
  }

  template <typename... Args>
  decltype(auto) operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  // Does nothing while gradient_merge accumulates gradients for a later step.
  void zero_grad() {
    if (!detail::is_merging(*registry_, *this->core())) {
      Base::zero_grad();
    }
  }

 private:
  template <typename... Args>
  auto forward_spread(Args&&... args) {
    if constexpr ((std::is_copy_constructible_v<std::decay_t<Args>> && ...)) {
      std::tuple<std::decay_t<Args>...> copies(args...);
      bool entered = false;
      training::for_each_tensor(copies, [&](at::Tensor& each) {
        entered |= detail::enter(*spread_, each);
      });
      auto result = std::apply(
          [&](auto&... each) {
            return this->Base::forward(
                static_cast<recomputation::Again<Args&&>>(each)...);
          },
          copies);
      if (entered) {
        training::for_each_tensor(
            result, [&](at::Tensor& each) { detail::leave(*spread_, each); });
      }
      return result;
    } else {
      return Base::forward(std::forward<Args>(args)...);
    }
  }

  bool autocast_;
  optim::AutoCastLists autocast_lists_;
  std::shared_ptr<const RecomputedModules> recomputed_;
  std::shared_ptr<InputCheck> input_check_;
  std::shared_ptr<SpreadCore> spread_; // null: parameters are plain tensors
  std::shared_ptr<Registry> registry_;
};

} // namespace argosy::fleet
