#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
} // namespace torch::optim

namespace argosy::fleet {

struct DistributedStrategy;

// Returns the name of a parameter, or "" if it is unknown.
using NameOf = std::function<std::string(const at::Tensor& parameter)>;

// The optimizer that steps instead of the user's, with the user's parameters
// and learning rates.
struct OptimizerReplacement {
  std::unique_ptr<torch::optim::Optimizer> optimizer; // null: keep the user's
  std::optional<double> dgc_momentum; // momentum that dgc applies to gradients
  std::map<const void*, double> dgc_decays; // the same; by TensorImpl
};

// Builds the optimizer that lars, lamb or dgc require. Throws InvalidArgument
// when the user's optimizer is not of the type that the strategy needs, or has
// an option that the replacement does not support.
OptimizerReplacement replace_optimizer(
    torch::optim::Optimizer& optimizer,
    const DistributedStrategy& strategy,
    const NameOf& name_of,
    int num_ranks);

} // namespace argosy::fleet
