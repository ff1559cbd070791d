#pragma once

#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "../02_gpt/gpt.h"
#include "argosy/expert/moe_layer.h"
#include "argosy/sequence_parallel/layers.h"
#include "argosy/sequence_parallel/reduce_gradients.h"
#include "argosy/sequence_parallel/scatter_gather.h"
#include "argosy/sequence_parallel/segment.h"
#include "argosy/tensor_parallel/grid_layers.h"
#include "argosy/tensor_parallel/layers.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/tensor_parallel/parameters.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/training/parameter_marks.h"

// The GPT of examples/02_gpt with tensor-parallel layers, for sequences that
// may be split over ranks. Parameters have the same names, so that each model
// can load the other's.
namespace argosy::examples {

struct ParallelGptOptions {
  GptOptions gpt;
  GroupPtr group;
  bool sequence_parallel = false;
  bool recompute_allgather = false;
  // Null: every rank has whole sequences.
  std::shared_ptr<SegmentParallel> segments;
  // If greater than 0, each token uses two of this many experts instead of the
  // layers up and down. Not with sequence_parallel.
  long experts = 0;
  GroupPtr expert_group;
  double balance = 0; // weight of the load-balancing loss
  double dropout = 0; // of what each block adds to its input
  // For measuring with a group of this rank alone: compute what one of this
  // many ranks would compute.
  long parts = 1;
  // {x, y} or {x, y, z}: the blocks lie on a grid of the group's ranks. Not
  // with sequence_parallel and experts.
  std::vector<std::int64_t> grid;

  TensorGrid tensor_grid() const { return TensorGrid(grid, group); }

  // Ranks that hold the same activations drop the same ones.
  const char* dropout_stream() const {
    return sequence_parallel || !grid.empty() ? kModelParallelRng : kGlobalRng;
  }

  long length() const {
    return segments ? segments->positions().size(0) : gpt.context;
  }
};

using Layer = std::function<at::Tensor(const at::Tensor&)>;

struct ParallelBlockImpl : torch::nn::Module {
  explicit ParallelBlockImpl(const ParallelGptOptions& options)
      : norm1(add_norm("norm1", options)),
        qkv(add_column("qkv", 3, options)),
        out(add_row("out", 1, options)),
        norm2(add_norm("norm2", options)),
        feed(options.experts > 0 ? add_experts(options) : add_feed(options)),
        head_size(options.gpt.width / options.gpt.heads),
        segments(options.segments),
        dropout(options.dropout),
        dropout_stream(options.dropout_stream()) {}

  at::Tensor forward(at::Tensor x, const at::Tensor& ahead) {
    x = x + dropped(out(attention(qkv(norm1(x)), ahead)));
    return x + dropped(feed(norm2(x)));
  }

 private:
  at::Tensor dropped(const at::Tensor& x) const {
    return dropout > 0
        ? tensor_parallel::dropout(x, dropout, dropout_stream, is_training())
        : x;
  }

  // For the heads of this rank.
  at::Tensor attention(
      const at::Tensor& joined, const at::Tensor& ahead) const {
    const long batch = joined.size(0);
    const long length = joined.size(1);
    const long heads = joined.size(2) / 3 / head_size;
    const auto parts = joined.view({batch, length, heads, 3, head_size})
                           .permute({3, 0, 2, 1, 4})
                           .unbind();
    return (segments
                ? segments->ring(parts[0], parts[1], parts[2], {.causal = true})
                : attend(parts[0], parts[1], parts[2], ahead))
        .transpose(1, 2)
        .reshape({batch, length, heads * head_size});
  }

  at::Tensor attend(
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const at::Tensor& ahead) const {
    const double scale = 1 / std::sqrt(static_cast<double>(head_size));
    const at::Tensor scores =
        torch::matmul(query * scale, key.transpose(-2, -1))
            .masked_fill(ahead, -std::numeric_limits<float>::infinity());
    return torch::matmul(scores.softmax(-1), value);
  }

  Layer add_column(
      const std::string& name, long factor, const ParallelGptOptions& options) {
    const long width = options.gpt.width;
    const long features = factor * width / options.parts;
    if (!options.grid.empty()) {
      return add_layer(
          name,
          GridLinear(
              GridLinearOptions(width, features, options.tensor_grid())));
    }
    if (options.sequence_parallel) {
      return add_layer(
          name,
          ColumnSequenceParallelLinear(
              ColumnSequenceParallelLinearOptions(width, features)
                  .sequence_dim(1)
                  .sequence_length(options.length())
                  .recompute_allgather(options.recompute_allgather)
                  .group(options.group)));
    }
    return add_layer(
        name,
        ColumnParallelLinear(ColumnParallelLinearOptions(width, features)
                                 .gather_output(false)
                                 .group(options.group)));
  }

  Layer add_row(
      const std::string& name, long factor, const ParallelGptOptions& options) {
    const long width = options.gpt.width;
    const long features = factor * width / options.parts;
    if (!options.grid.empty()) {
      return add_layer(
          name,
          GridLinear(GridLinearOptions(features, width, options.tensor_grid())
                         .input(GridLayout::Inner)));
    }
    if (options.sequence_parallel) {
      return add_layer(
          name,
          RowSequenceParallelLinear(
              RowSequenceParallelLinearOptions(features, width)
                  .sequence_dim(1)
                  .group(options.group)));
    }
    return add_layer(
        name,
        RowParallelLinear(RowParallelLinearOptions(features, width)
                              .input_is_parallel(true)
                              .group(options.group)));
  }

  Layer add_feed(const ParallelGptOptions& options) {
    const Layer up = add_column("up", 4, options);
    const Layer down = add_row("down", 4, options);
    return [=](const at::Tensor& x) { return down(torch::gelu(up(x))); };
  }

  Layer add_experts(const ParallelGptOptions& options) {
    const long width = options.gpt.width;
    return add_layer(
        "moe",
        MoELayer(MoELayerOptions(width, options.experts)
                     .gate(DroplessGate(GateOptions(width, options.experts)
                                            .group(options.expert_group))
                               .ptr())
                     .group(options.expert_group)
                     .mp_group(options.group)
                     .split_experts(true)
                     .loss_weight(options.balance)));
  }

  template <typename Module>
  Layer add_layer(const std::string& name, Module module) {
    return [layer = register_module(name, module)](const at::Tensor& x) {
      return layer->forward(x);
    };
  }

  Layer add_norm(const std::string& name, const ParallelGptOptions& options) {
    if (!options.grid.empty()) {
      return add_layer(
          name,
          GridLayerNorm(
              GridLayerNormOptions(options.gpt.width, options.tensor_grid())));
    }
    auto norm = register_module(
        name,
        torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.gpt.width})));
    if (options.sequence_parallel) {
      for (const at::Tensor& each : norm->parameters()) {
        mark_as_sequence_parallel_parameter(each);
      }
    }
    return [norm](const at::Tensor& x) { return norm->forward(x); };
  }

  Layer norm1;
  Layer qkv;
  Layer out;
  Layer norm2;
  Layer feed;
  const long head_size;
  const std::shared_ptr<SegmentParallel> segments;
  const double dropout;
  const char* const dropout_stream;
};
TORCH_MODULE(ParallelBlock);

// Maps the tokens [batch, length] of this rank's part of the sequence to this
// rank's classes of [batch, length, vocab].
struct ParallelGptImpl : torch::nn::Module {
  explicit ParallelGptImpl(ParallelGptOptions its_options)
      : options(std::move(its_options)) {
    const GptOptions& gpt = options.gpt;
    tokens = register_module(
        "tokens",
        VocabParallelEmbedding(
            VocabParallelEmbeddingOptions(gpt.vocab, gpt.width)
                .group(options.group)));
    places =
        register_module("places", torch::nn::Embedding(gpt.context, gpt.width));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (long i = 0; i < gpt.layers; ++i) {
      blocks->push_back(ParallelBlock(options));
    }
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({gpt.width})));
    if (options.sequence_parallel) {
      for (const at::Tensor& each : norm->parameters()) {
        mark_as_sequence_parallel_parameter(each);
      }
    }
  }

  at::Tensor forward(const at::Tensor& text) {
    const long length = text.size(1);
    const at::Tensor ahead =
        torch::ones({length, length}, torch::kBool).triu(1);
    at::Tensor x = tokens(text) + places(places_of(length));
    if (options.sequence_parallel) {
      x = sequence_parallel::scatter(x, options.group, 1);
    }
    if (!options.grid.empty()) {
      x = options.tensor_grid().part(x);
    }
    for (const auto& block : *blocks) {
      x = block->as<ParallelBlockImpl>()->forward(x, ahead);
    }
    if (!options.grid.empty()) {
      x = options.tensor_grid().whole(x);
    }
    x = norm(x);
    x = options.sequence_parallel
        ? sequence_parallel::all_gather(x, options.group, 1, length)
        : tensor_parallel::copy_to(x, options.group);
    return torch::matmul(x, tokens->weight.t());
  }

  // The mean over this rank's tokens.
  at::Tensor loss(const at::Tensor& text, const at::Tensor& target) {
    return tensor_parallel::cross_entropy(
               forward(text),
               target,
               options.group,
               {.num_classes = options.gpt.vocab})
        .mean();
  }

  const ParallelGptOptions options;

 private:
  at::Tensor places_of(long length) const {
    return options.segments ? options.segments->positions()
                            : torch::arange(length);
  }

  VocabParallelEmbedding tokens = nullptr;
  torch::nn::Embedding places = nullptr;
  torch::nn::ModuleList blocks = nullptr;
  torch::nn::LayerNorm norm = nullptr;
};
TORCH_MODULE(ParallelGpt);

} // namespace argosy::examples
