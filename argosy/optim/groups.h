#pragma once

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/optim/fused.h"

// Groups of parameters that are treated apart.
namespace argosy::optim {

using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;
using ParamPredicate =
    std::function<bool(const std::string& name, const at::Tensor& param)>;

// All parameters of an optimizer, in the order of its groups.
std::vector<at::Tensor> params_of(const torch::optim::Optimizer& optimizer);

// Whether a name contains one of the texts, as exclude_from_weight_decay.
ParamPredicate name_contains(std::vector<std::string> texts);

// Biases, and the weights of normalisation: what is seldom decayed.
ParamPredicate has_less_than_two_dims();

// Two groups: the parameters for which `excluded` does not hold, with
// `options`, and those for which it does, with `options_of_excluded`. A group
// without parameters is left out.
template <typename Options>
ParamGroups split_groups(
    const NamedParameters& params,
    const ParamPredicate& excluded,
    const Options& options,
    const Options& options_of_excluded) {
  std::vector<at::Tensor> parts[2];
  for (const auto& item : params) {
    parts[excluded(item.key(), item.value()) ? 1 : 0].push_back(item.value());
  }
  const Options* const of[2] = {&options, &options_of_excluded};
  std::vector<ParamGroups::Group> groups;
  for (int i = 0; i < 2; ++i) {
    if (!parts[i].empty()) {
      groups.emplace_back(parts[i], std::make_unique<Options>(*of[i]));
    }
  }
  return groups;
}

} // namespace argosy::optim
