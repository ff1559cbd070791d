#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "../05_hybrid/parallel_gpt.h"
#include "argosy/pipeline/pipeline_layer.h"

// The GPT of examples/02_gpt as a list of layers for a pipeline. Ranks may
// split the layers too, as in examples/05_hybrid.
namespace argosy::examples {

// Adds position embeddings to token embeddings.
struct PlacesImpl : torch::nn::Module {
  explicit PlacesImpl(ParallelGptOptions its_options)
      : options(std::move(its_options)),
        places(register_module(
            "places",
            torch::nn::Embedding(options.gpt.context, options.gpt.width))) {}

  at::Tensor forward(const at::Tensor& words) {
    const at::Tensor x = words +
        places(options.segments ? options.segments->positions()
                                : torch::arange(words.size(1)));
    return options.sequence_parallel
        ? sequence_parallel::scatter(x, options.group, 1)
        : x;
  }

  const ParallelGptOptions options;
  torch::nn::Embedding places;
};

struct StageBlockImpl : ParallelBlockImpl {
  explicit StageBlockImpl(const ParallelGptOptions& options)
      : ParallelBlockImpl(options), length(options.length()) {}

  at::Tensor forward(const at::Tensor& x) {
    return ParallelBlockImpl::forward(
        x, torch::ones({length, length}, torch::kBool).triu(1));
  }

  const long length;
};

struct LastNormImpl : torch::nn::LayerNormImpl {
  explicit LastNormImpl(ParallelGptOptions its_options)
      : torch::nn::LayerNormImpl(
            torch::nn::LayerNormOptions({its_options.gpt.width})),
        gpt(std::move(its_options)) {
    for (const at::Tensor& each : parameters()) {
      if (gpt.sequence_parallel) {
        mark_as_sequence_parallel_parameter(each);
      }
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor normal = torch::nn::LayerNormImpl::forward(x);
    return gpt.sequence_parallel
        ? sequence_parallel::all_gather(normal, gpt.group, 1, gpt.length())
        : tensor_parallel::copy_to(normal, gpt.group);
  }

  const ParallelGptOptions gpt;
};

// Maps tokens [batch, length] to this rank's classes of [batch, length, vocab].
// The last layer shares the weights of the token embedding.
inline std::vector<pipeline::LayerDesc> gpt_layers(
    const ParallelGptOptions& options) {
  const auto words =
      VocabParallelEmbeddingOptions(options.gpt.vocab, options.gpt.width)
          .group(options.group);
  std::vector<pipeline::LayerDesc> layers = {
      pipeline::shared_layer<VocabParallelEmbedding>(
          "words", {"weight"}, words),
      pipeline::layer<PlacesImpl>(options)};
  for (long i = 0; i < options.gpt.layers; ++i) {
    layers.push_back(pipeline::layer<StageBlockImpl>(options));
  }
  layers.push_back(pipeline::layer<LastNormImpl>(options));
  layers.push_back(pipeline::shared_layer_as<VocabParallelEmbedding>(
      "words",
      {"weight"},
      [](auto& module, const at::Tensor& x) {
        return torch::matmul(x, module.weight.t());
      },
      words));
  return layers;
}

// The name of a parameter of gpt_layers() in the Gpt.
inline std::string gpt_name(const std::string& name, long num_blocks) {
  const auto dot = name.find('.');
  const long layer = std::stol(name.substr(0, dot));
  const std::string rest = name.substr(dot + 1);
  if (layer == 0 || layer == num_blocks + 3) {
    return "tokens." + rest;
  }
  if (layer == 1) {
    return rest;
  }
  return layer == num_blocks + 2
      ? "norm." + rest
      : "blocks." + std::to_string(layer - 2) + "." + rest;
}

inline pipeline::LossFn gpt_loss(const ParallelGptOptions& options) {
  return [options](const Tensors& outputs, const Tensors& labels) {
    return tensor_parallel::cross_entropy(
               outputs[0],
               labels[0],
               options.group,
               {.num_classes = options.gpt.vocab})
        .mean();
  };
}

} // namespace argosy::examples
