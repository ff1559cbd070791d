#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "argosy/compat/slice_strategy.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// How the slices of a strategy apply to a layer. Letters name dims as einsum
// does: dims with the same letter are sliced alike.
//
//   LayerRule linear{"b*k", {{"weight", "ok"}, {"bias", "o"}}};
struct LayerRule {
  // The dims of the input. '-' is a dim that stays whole. '*', once, is any
  // number of dims: they stay whole, unless a strategy has a number for each
  // dim of the input.
  std::string input;
  // The dims of parameters and buffers, under their names in
  // named_parameters(). A strategy slices the first of them; the others follow
  // by their letters. What is not listed stays whole.
  std::vector<std::pair<std::string, std::string>> states;
};

namespace compat {

// The rule of a layer of LibTorch: Linear, Embedding, convolutions, batch,
// instance, group and layer norms, MultiheadAttention, LSTM, GRU, RNN and their
// cells.
// Throws InvalidArgument for others.
LayerRule rule_of(const torch::nn::Module& layer);

// What a rule and a strategy make of a layer. No torch headers.
struct LayerPlacements {
  std::string input; // as in LayerRule, '*' replaced if the strategy says so
  // Of an input that has the letters of `input` without '*' as its dims.
  Placements letters;
  std::vector<std::pair<std::string, Placements>> states;

  // Of an input of so many dims. Throws InvalidArgument when it has fewer than
  // letters, or others where there is no '*'.
  Placements of_input(std::int64_t dims) const;
};

// A strategy has the slices of the input, and of the first state unless those
// follow from the input's. Throws InvalidArgument when it does not fit.
LayerPlacements place_layer(
    const ProcessMesh& mesh, const LayerRule& rule, const OpStrategy& strategy);

} // namespace compat
} // namespace argosy
