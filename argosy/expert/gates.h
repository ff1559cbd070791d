#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <utility>

#include "argosy/comm/ops.h"

// Gates choose some of the experts of all ranks for each token. All ranks of
// the group construct the same gates in the same order, and get the same
// parameters (initial values as in argosy/tensor_parallel/layers.h). Each rank
// sees its own tokens, so data parallelism must average the gradients.
namespace argosy {

// The choices of a gate.
struct Routing {
  at::Tensor experts; // [tokens, k] int64; -1: dropped
  at::Tensor weights; // [tokens, k], differentiable
};

// The factors of the experts' results.
enum class GateWeights {
  Default,       // those of the gate's paper
  Probabilities, // softmax over all experts
  Normalized,    // probabilities divided by their sum over the choices
  Logits,        // the logits themselves
};

// Gates ignore options that they do not need.
struct GateOptions {
  GateOptions(std::int64_t d_model, std::int64_t num_experts)
      : d_model_(d_model), num_experts_(num_experts) {}

  TORCH_ARG(std::int64_t, d_model);
  TORCH_ARG(std::int64_t, num_experts); // of all ranks
  TORCH_ARG(std::int64_t, top_k) = 0;   // 0: 1 for Switch, else 2
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(GateWeights, weights) = GateWeights::Default;

  // GShard, Switch: an expert takes ceil(factor * k * tokens / experts) choices
  // of a rank's tokens. The factors for training and evaluation.
  using Factors = std::pair<double, double>;
  TORCH_ARG(Factors, capacity) = {1.2, 2.4};
  // GShard, in training: take the second choice with a probability that grows
  // with its weight.
  TORCH_ARG(bool, random_routing) = true;
  // Switch, in training: multiply logits by a random number in
  // [1 - noise, 1 + noise).
  TORCH_ARG(double, noise) = 0.1;

  // Dropless: weights of the losses that get_loss() sums.
  TORCH_ARG(double, balance_loss) = 1;
  TORCH_ARG(double, z_loss) = 0;
  // Dropless: step by which update_balance() changes the bias of the choice.
  TORCH_ARG(double, balance_rate) = 0;

  // GShard, Switch, Naive: compute as Paddle does where Paddle differs from the
  // papers; docs/moe.md lists the differences.
  TORCH_ARG(bool, like_paddle) = false;
  // Null: the group of the expert axis (hybrid_mesh.h), or all ranks.
  TORCH_ARG(GroupPtr, group) = nullptr;
};

// The base class of gates: a linear layer and a choice. Derive from it to write
// your own.
class GateImpl : public torch::nn::Module {
 public:
  explicit GateImpl(GateOptions its_options);
  ~GateImpl() override;

  // Takes tokens [tokens, d_model].
  virtual Routing forward(const at::Tensor& tokens) = 0;

  // The auxiliary loss of the last forward, or undefined if the gate has none.
  // Multiply it by a weight and add it to the loss.
  at::Tensor get_loss(bool clear = true);
  bool has_loss() const { return loss_.defined(); }

  const GateOptions options;
  at::Tensor weight; // [experts, d_model]
  at::Tensor bias;   // [experts]

 protected:
  // Logits [tokens, experts]; float for 16-bit tokens.
  at::Tensor logits_of(const at::Tensor& tokens) const;
  // Chooses the experts with the largest `ranking`.
  Routing choose(const at::Tensor& logits, const at::Tensor& ranking) const;
  // Drops choices beyond the capacity.
  at::Tensor limit(const at::Tensor& experts) const;
  // Uniform random numbers in [0, 1). They differ between the ranks of the
  // group, and are the same on ranks that have the same tokens.
  at::Tensor draw(at::IntArrayRef sizes) const;
  void set_loss(at::Tensor loss) { loss_ = std::move(loss); }
  const GroupPtr& group() const { return group_; }

 private:
  const GroupPtr group_;
  at::Tensor loss_;
};

// Chooses the k largest logits, without capacity and loss.
class NaiveGateImpl : public GateImpl {
 public:
  explicit NaiveGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;
};
TORCH_MODULE(NaiveGate);

// Chooses the two largest logits, with a capacity. Its loss is 1 if experts are
// chosen equally often, and grows with the imbalance.
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

// Chooses the largest logit, with a capacity and the same loss.
class SwitchGateImpl : public GateImpl {
 public:
  explicit SwitchGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;
};
TORCH_MODULE(SwitchGate);

// Chooses the k largest logits and drops nothing. Balances experts by a loss,
// or without one by a bias that only influences the choice. z_loss keeps logits
// small.
class DroplessGateImpl : public GateImpl {
 public:
  explicit DroplessGateImpl(const GateOptions& its_options);
  Routing forward(const at::Tensor& tokens) override;

  // Call it after a step of the optimizer. Experts that all ranks together have
  // chosen less often than others since the last call become more likely.
  // Collective; blocks.
  void update_balance();

  at::Tensor balance_bias; // [experts]
  at::Tensor load;         // [experts], of this rank since update_balance()
};
TORCH_MODULE(DroplessGate);

} // namespace argosy
