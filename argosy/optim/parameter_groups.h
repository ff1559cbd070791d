#pragma once

#include <ATen/core/Tensor.h>
#include <torch/ordered_dict.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/optim/fused.h"

// Groups of parameters with options of their own.
namespace argosy::optim {

using NamedParameters = torch::OrderedDict<std::string, at::Tensor>;
using ParamPredicate =
    std::function<bool(const std::string& name, const at::Tensor& param)>;

// All parameters of an optimizer, in the order of its groups.
std::vector<at::Tensor> params_of(const torch::optim::Optimizer& optimizer);

// Holds for parameters whose name contains one of the texts.
ParamPredicate name_contains(std::vector<std::string> texts);

// Holds for biases and the weights of normalization, which are usually excluded
// from weight decay.
ParamPredicate has_less_than_two_dims();

// Returns two groups: the parameters for which `excluded` is false, with
// `options`, and the others, with `options_of_excluded`. Omits empty groups.
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
