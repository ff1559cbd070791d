#include "argosy/optim/parameter_groups.h"

#include <algorithm>
#include <utility>

namespace argosy::optim {

std::vector<at::Tensor> params_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> params;
  for (const auto& group : optimizer.param_groups()) {
    params.insert(params.end(), group.params().begin(), group.params().end());
  }
  return params;
}

ParamPredicate name_contains(std::vector<std::string> texts) {
  return [texts = std::move(texts)](const std::string& name, const auto&) {
    return std::ranges::any_of(texts, [&](const auto& text) {
      return name.find(text) != std::string::npos;
    });
  };
}

ParamPredicate has_less_than_two_dims() {
  return [](const std::string&, const at::Tensor& param) {
    return param.dim() < 2;
  };
}

} // namespace argosy::optim
