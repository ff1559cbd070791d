#pragma once

#include <functional>
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

// The name of a parameter, or "" when nobody has told.
using NameOf = std::function<std::string(const at::Tensor& parameter)>;

// What steps in the place of an optimizer, with its parameters and rates.
struct Replacement {
  std::unique_ptr<torch::optim::Optimizer> optimizer; // null: the optimizer
  std::optional<double> dgc_momentum; // which the gradients bring along
};

// Throws InvalidArgument when the optimizer is not of the kind that a switch of
// the strategy takes, or has an option that would be lost.
Replacement replace_optimizer(
    torch::optim::Optimizer& optimizer,
    const DistributedStrategy& strategy,
    const NameOf& name_of,
    int num_ranks);

} // namespace argosy::fleet
