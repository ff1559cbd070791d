#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "argosy/expert/gates.h"
#include "argosy/expert/grouped_experts.h"

namespace argosy {

// Any module with forward(Tensor) -> Tensor, from [n, d_model] to the same; n
// may be 0. Made from a holder or a shared_ptr of yours.
struct Expert {
  template <typename T>
  Expert(const torch::nn::ModuleHolder<T>& holder) : Expert(holder.ptr()) {}

  template <typename T>
  Expert(const std::shared_ptr<T>& its_module)
      : module(its_module), forward([its_module](const at::Tensor& x) {
          return its_module->forward(x);
        }) {}

  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

// Makes the expert of that number, of 0 ... num_experts - 1.
using ExpertFactory = std::function<Expert(std::int64_t expert)>;

struct MoELayerOptions {
  MoELayerOptions(std::int64_t d_model, std::int64_t num_experts)
      : d_model_(d_model), num_experts_(num_experts) {}

  TORCH_ARG(std::int64_t, d_model);
  TORCH_ARG(std::int64_t, num_experts); // of all ranks
  // Null: a GShardGate.
  TORCH_ARG(std::shared_ptr<GateImpl>, gate) = nullptr;
  // Null: GroupedExperts with so many hidden features (0: 4 * d_model).
  TORCH_ARG(ExpertFactory, expert) = nullptr;
  TORCH_ARG(std::int64_t, hidden) = 0;
  TORCH_ARG(ExpertActivation, activation) = ExpertActivation::Gelu;
  // Ranks that have different experts and different tokens. Null: that of the
  // expert axis (hybrid_mesh.h), or all ranks.
  TORCH_ARG(GroupPtr, group) = nullptr;
  // Ranks that have the same tokens, each in another `group`. They divide the
  // tokens among them, and have the same experts; or, with `split_experts`,
  // each has a part of every expert (for an `expert` of your own: that has
  // tensor parallel layers).
  TORCH_ARG(GroupPtr, mp_group) = nullptr;
  TORCH_ARG(bool, split_experts) = false;
  // Where the loss is made elsewhere, as in a pipeline: backward goes through
  // the gate's loss times this too, and get_loss() need not be added. 0: it
  // must.
  TORCH_ARG(double, loss_weight) = 0;
  // Backward runs the experts again, instead of keeping what they computed.
  TORCH_ARG(bool, recompute) = false;
};

// A layer of experts, of which each rank of a group has some, and each token
// uses few: y = sum over the choices of weight * expert(x). Choices that the
// gate has dropped add nothing. x [..., d_model].
//
//   MoELayer layer(MoELayerOptions(512, 8).hidden(2048));
//   auto y = layer(x);
//   auto loss = criterion(y) + 0.01 * layer->get_loss();
//
// All ranks of the group make and call it alike, forward and backward, and wait
// for each other; a rank may have no tokens, an expert may get none (its
// gradients are zeros). Parameters of experts are marked is_expert
// (parameter_marks.h) where ranks have different ones: their gradients are of
// the sum of the losses of all ranks of the group. Expert e has the same first
// values whatever the number of ranks. Has no second derivative.
class MoELayerImpl : public torch::nn::Module {
 public:
  explicit MoELayerImpl(MoELayerOptions its_options);

  at::Tensor forward(const at::Tensor& x);

  // The gate's loss of the last forward, undefined when it has none. With
  // tokens divided over `mp_group`, the mean over it: all its ranks call it.
  at::Tensor get_loss(bool clear = true);

  const MoELayerOptions options;
  std::shared_ptr<GateImpl> gate;
  std::vector<Expert> experts; // of this rank, or
  GroupedExperts grouped{nullptr};

 private:
  void add_experts();
  void mark_parameters();
  bool divides_tokens() const;
  at::Tensor with_loss(const at::Tensor& y);
  at::Tensor run_experts(
      const at::Tensor& rows, const std::vector<std::int64_t>& counts);

  const GroupPtr group_;
};
TORCH_MODULE(MoELayer);

} // namespace argosy
