#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <utility>

#include "argosy/comm/ops.h"

// Gates choose, for each token, some of the experts of all ranks. All ranks of
// the group make the same gates in the same order: they have the same
// parameters, drawn as argosy/tensor_parallel/layers.h says, of which each rank
// sees its own tokens; a data parallel step averages their gradients.
namespace argosy {

// What a gate has chosen for tokens.
struct Routing {
  at::Tensor experts; // [tokens, k] int64; -1: dropped
  at::Tensor weights; // [tokens, k], differentiable
};

// By what the results of experts are multiplied.
enum class GateWeights {
  Default,       // as the gate's paper has it
  Probabilities, // softmax over all experts
  Normalized,    // the same, divided by their sum over the choices
  Logits,        // the numbers before the softmax
};

// What a gate does not need it does not look at.
struct GateOptions {
  GateOptions(std::int64_t d_model, std::int64_t num_experts)
      : d_model_(d_model), num_experts_(num_experts) {}

  TORCH_ARG(std::int64_t, d_model);
  TORCH_ARG(std::int64_t, num_experts); // of all ranks
  TORCH_ARG(std::int64_t, top_k) = 0;   // 0: 1 for Switch, else 2
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(GateWeights, weights) = GateWeights::Default;

  // GShard, Switch: an expert takes ceil(factor * k * tokens / experts) choices
  // of a rank's tokens; in training, and else.
  using Factors = std::pair<double, double>;
  TORCH_ARG(Factors, capacity) = {1.2, 2.4};
  // GShard, in training: second choices are taken by chance, the more likely
  // the larger their weight.
  TORCH_ARG(bool, random_routing) = true;
  // Switch, in training: logits times a number in [1 - noise, 1 + noise).
  TORCH_ARG(double, noise) = 0.1;

  // Dropless: what get_loss() adds up.
  TORCH_ARG(double, balance_loss) = 1;
  TORCH_ARG(double, z_loss) = 0;
  // Dropless: how far update_balance() moves the bias of choices.
  TORCH_ARG(double, balance_rate) = 0;

  // GShard, Switch, Naive: as Paddle computes where that is not what the papers
  // say; docs/moe.md has the list.
  TORCH_ARG(bool, like_paddle) = false;
  // Null: that of the expert axis (hybrid_mesh.h), or all ranks.
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// A gate: a linear layer and a choice. Derive from it for your own.
class GateImpl : public torch::nn::Module {
 public:
  explicit GateImpl(GateOptions its_options);
  ~GateImpl() override;

  // Of tokens [tokens, d_model].
  virtual Routing forward(const at::Tensor& tokens) = 0;

  // The auxiliary loss of the last forward, to be added to the loss times a
  // weight; undefined when there is none.
  at::Tensor get_loss(bool clear = true);
  bool has_loss() const { return loss_.defined(); }

  const GateOptions options;
  at::Tensor weight; // [experts, d_model]
  at::Tensor bias;   // [experts]

 protected:
  // Logits [tokens, experts] and the choices of the largest. Of 16-bit tokens
  // they are float.
  at::Tensor logits_of(const at::Tensor& tokens) const;
  Routing choose(const at::Tensor& logits, const at::Tensor& ranking) const;
  // Choices beyond the capacity dropped.
  at::Tensor limit(const at::Tensor& experts) const;
  // Uniform in [0, 1): other numbers on each rank of the group, the same on
  // those that have the same tokens.
  at::Tensor draw(at::IntArrayRef sizes) const;
  void set_loss(at::Tensor loss) { loss_ = std::move(loss); }
  const GroupPtr& group() const { return group_; }

 private:
  const GroupPtr group_;
  at::Tensor loss_;
};

// The largest k; no capacity, no loss.
class NaiveGateImpl : public GateImpl {
 public:
  explicit NaiveGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;
};
TORCH_MODULE(NaiveGate);

// The two largest, with a capacity and a loss that is 1 when experts are chosen
// alike and the more the less they are.
class GShardGateImpl : public GateImpl {
 public:
  explicit GShardGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;

 private:
  at::Tensor balance_loss(
      const at::Tensor& logits, const at::Tensor& experts) const;
  at::Tensor drop_by_chance(const Routing& routing) const;
};
TORCH_MODULE(GShardGate);

// The largest, likewise.
class SwitchGateImpl : public GateImpl {
 public:
  explicit SwitchGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;
};
TORCH_MODULE(SwitchGate);

// The largest k; nothing is dropped. Balances by a loss, a loss that keeps
// logits small, or, without a loss, by a bias that counts for the choice only.
class DroplessGateImpl : public GateImpl {
 public:
  explicit DroplessGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;

  // After a step of the optimizer: experts that were chosen less than others,
  // by all ranks since the last call, become more likely. All ranks call it.
  void update_balance();

  at::Tensor balance_bias; // [experts]
  at::Tensor load;         // [experts], of this rank since update_balance()
};
TORCH_MODULE(DroplessGate);

} // namespace argosy
