#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "argosy/expert/gates.h"
#include "argosy/expert/grouped_experts.h"

namespace argosy {

// An expert: any module with forward(Tensor) -> Tensor that maps [n, d_model]
// to [n, d_model]; n may be 0. Convertible from a holder and from a shared_ptr.
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

// Constructs the expert with this number, from 0 to num_experts - 1.
using ExpertFactory = std::function<Expert(std::int64_t expert)>;

struct MoELayerOptions {
  MoELayerOptions(std::int64_t d_model, std::int64_t num_experts)
      : d_model_(d_model), num_experts_(num_experts) {}

  TORCH_ARG(std::int64_t, d_model);
  TORCH_ARG(std::int64_t, num_experts); // of all ranks
  // Null: a GShardGate with default options.
  TORCH_ARG(std::shared_ptr<GateImpl>, gate) = nullptr;
  // Null: GroupedExperts with `hidden` features (0: 4 * d_model).
  TORCH_ARG(ExpertFactory, expert) = nullptr;
  TORCH_ARG(std::int64_t, hidden) = 0;
  TORCH_ARG(ExpertActivation, activation) = ExpertActivation::Gelu;
  // The ranks that hold different experts and have different tokens. Null: the
  // group of the expert axis (hybrid_mesh.h), or all ranks.
  TORCH_ARG(GroupPtr, group) = nullptr;
  // The ranks that have the same tokens, each in another `group`. They hold the
  // same experts and divide the tokens among them. With `split_experts`, each
  // holds a slice of every expert instead; an `expert` factory must then use
  // tensor parallel layers.
  TORCH_ARG(GroupPtr, mp_group) = nullptr;
  TORCH_ARG(bool, split_experts) = false;
  // If not 0, backward adds the gradient of the gate's loss times this weight,
  // and you need not add get_loss() to the loss. Use it if the loss is computed
  // elsewhere, as in a pipeline.
  TORCH_ARG(double, loss_weight) = 0;
  // Run the experts again in backward instead of keeping their activations.
  TORCH_ARG(bool, recompute) = false;
  // If greater than 1, tokens travel to the experts and back in this many
  // chunks, each while another is computed. The same on all ranks.
  TORCH_ARG(int, overlap_chunks) = 1;
};

// A mixture-of-experts layer. Each rank of a group holds some of the experts
// (if they do not divide by the ranks, the first ranks hold one more), and each
// token uses a few of them: y = sum over the choices of
// weight * expert(x). Choices that the gate has dropped add nothing. x is
// [..., d_model].
//
//   MoELayer layer(MoELayerOptions(512, 8).hidden(2048));
//   auto y = layer(x);
//   auto loss = criterion(y) + 0.01 * layer->get_loss();
//
// All ranks of the group construct it and call forward and backward alike, and
// block. A rank may have no tokens, and an expert may get none (its gradients
// are then zeros). If ranks hold different experts, the experts' parameters are
// marked is_expert (parameter_marks.h); their gradients are those of the sum of
// the losses of all ranks of the group. The initial values of expert e do not
// depend on the number of ranks. Has no second derivative.
class MoELayerImpl : public torch::nn::Module {
 public:
  explicit MoELayerImpl(MoELayerOptions its_options);

  at::Tensor forward(const at::Tensor& x);

  // The gate's loss of the last forward, or undefined if it has none. If tokens
  // are divided over `mp_group`, the mean over that group; then all its ranks
  // must call it alike.
  at::Tensor get_loss(bool clear = true);

  const MoELayerOptions options;
  std::shared_ptr<GateImpl> gate;
  std::vector<Expert> experts; // of this rank; empty if `grouped` is set
  GroupedExperts grouped{nullptr};

 private:
  void add_experts();
  void mark_parameters();
  bool divides_tokens() const;
  at::Tensor route(const at::Tensor& x);
  at::Tensor with_loss(const at::Tensor& y);
  at::Tensor through_experts(const at::Tensor& tokens, const Routing& routing);
  at::Tensor run_experts(
      const at::Tensor& rows, const std::vector<std::int64_t>& counts);
  at::Tensor compute(
      const at::Tensor& rows, const std::vector<std::int64_t>& counts);

  const GroupPtr group_;
};
TORCH_MODULE(MoELayer);

} // namespace argosy
