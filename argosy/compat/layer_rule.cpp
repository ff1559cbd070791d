#include "argosy/compat/layer_rule.h"

#include <torch/nn/functional/instancenorm.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include <optional>

#include "argosy/common/error.h"

namespace argosy::compat {

namespace {

using torch::nn::Module;

template <typename Layer>
const Layer* as(const Module& module) {
  return dynamic_cast<const Layer*>(&module);
}

// Input channels c, output channels o. With groups those of a group are
// together, so that both sides are sliced alike.
LayerRule convolution(std::size_t dims, std::int64_t groups, bool transposed) {
  const std::string kernel(dims, '-');
  const std::string input = "bc" + std::string("xyz").substr(0, dims);
  if (groups > 1) {
    return {input, {{"weight", "c-" + kernel}, {"bias", "c"}}};
  }
  return {
      input, {{"weight", (transposed ? "co" : "oc") + kernel}, {"bias", "o"}}};
}

template <typename Conv, typename Transposed>
std::optional<LayerRule> convolution_of(const Module& layer, std::size_t dims) {
  if (const auto* conv = as<Conv>(layer)) {
    return convolution(dims, conv->options.groups(), false);
  }
  if (const auto* conv = as<Transposed>(layer)) {
    return convolution(dims, conv->options.groups(), true);
  }
  return std::nullopt;
}

std::optional<LayerRule> any_convolution_of(const Module& layer) {
  using namespace torch::nn; // NOLINT
  if (auto rule = convolution_of<Conv1dImpl, ConvTranspose1dImpl>(layer, 1)) {
    return rule;
  }
  if (auto rule = convolution_of<Conv2dImpl, ConvTranspose2dImpl>(layer, 2)) {
    return rule;
  }
  return convolution_of<Conv3dImpl, ConvTranspose3dImpl>(layer, 3);
}

// Channels are independent of one another.
LayerRule channel_norm() {
  return {
      "bc*",
      {{"weight", "c"},
       {"bias", "c"},
       {"running_mean", "c"},
       {"running_var", "c"}}};
}

template <typename... Norms>
bool is_one_of(const Module& layer) {
  return (... || (as<Norms>(layer) != nullptr));
}

std::optional<LayerRule> norm_of(const Module& layer) {
  using namespace torch::nn; // NOLINT
  if (is_one_of<
          BatchNorm1dImpl,
          BatchNorm2dImpl,
          BatchNorm3dImpl,
          InstanceNorm1dImpl,
          InstanceNorm2dImpl,
          InstanceNorm3dImpl,
          GroupNormImpl>(layer)) {
    return channel_norm();
  }
  if (const auto* norm = as<LayerNormImpl>(layer)) {
    const std::string whole(norm->options.normalized_shape().size(), '-');
    return LayerRule{"b*" + whole, {{"weight", whole}, {"bias", whole}}};
  }
  return std::nullopt;
}

// Projections p of queries, keys and values, which the output projection
// contracts. LibTorch merges batch and heads into one dim, so that the
// attention itself runs on gathered projections.
LayerRule attention() {
  return {
      "tb-",
      {{"in_proj_weight", "p-"},
       {"q_proj_weight", "p-"},
       {"k_proj_weight", "p-"},
       {"v_proj_weight", "p-"},
       {"in_proj_bias", "p"},
       {"out_proj.weight", "-p"}}};
}

// The rows of all weights and biases of gates, g. The projections of an LSTM
// stay whole.
LayerRule gates(const Module& layer, const std::string& input) {
  LayerRule rule{input, {}};
  for (const auto& each : layer.named_parameters(/*recurse=*/false)) {
    if (each.key().find("_hr") == std::string::npos) {
      rule.states.emplace_back(
          each.key(), each.value().dim() == 2 ? "g-" : "g");
    }
  }
  return rule;
}

std::optional<LayerRule> recurrent_of(const Module& layer) {
  using namespace torch::nn; // NOLINT
  if (is_one_of<LSTMCellImpl, GRUCellImpl, RNNCellImpl>(layer)) {
    return gates(layer, "b-");
  }
  const auto* lstm = as<LSTMImpl>(layer);
  const auto* gru = as<GRUImpl>(layer);
  const auto* rnn = as<RNNImpl>(layer);
  if (lstm == nullptr && gru == nullptr && rnn == nullptr) {
    return std::nullopt;
  }
  const bool batch_first = lstm != nullptr ? lstm->options.batch_first()
      : gru != nullptr                     ? gru->options.batch_first()
                                           : rnn->options.batch_first();
  // Time steps are computed one after the other.
  return gates(layer, batch_first ? "b--" : "-b-");
}

} // namespace

LayerRule rule_of(const Module& layer) {
  using namespace torch::nn; // NOLINT
  if (as<LinearImpl>(layer) != nullptr) {
    // Linear contracts k; LibTorch stores its weight as (out, in).
    return {"b*k", {{"weight", "ok"}, {"bias", "o"}}};
  }
  if (as<EmbeddingImpl>(layer) != nullptr) {
    // An embedding looks up rows, so that input and weight share no dim.
    return {"b*l", {{"weight", "vh"}}};
  }
  if (as<MultiheadAttentionImpl>(layer) != nullptr) {
    return attention();
  }
  if (auto rule = any_convolution_of(layer)) {
    return *rule;
  }
  if (auto rule = recurrent_of(layer)) {
    return *rule;
  }
  const auto rule = norm_of(layer);
  ARGOSY_CHECK(
      rule,
      "[shard_layer_by] {} has no rule of its own; give one: "
      "shard_layer_by(layer, mesh, {\"b*k\", {{\"weight\", \"ok\"}}}, "
      "strategy)",
      layer.name());
  return *rule;
}

} // namespace argosy::compat
