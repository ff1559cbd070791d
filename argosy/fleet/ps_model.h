#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/ps/worker/session.h"
#include "argosy/ps/worker/table_parameters.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

// A worker's model whose parameters, or some of them, are on servers. Not
// installed.
namespace argosy::fleet {

struct DistributedStrategy;

// Who holds which parameter of a model. Printable by its names.
struct PsPlacement {
  std::vector<std::string> tables;  // weights of embeddings, on servers
  std::vector<std::string> dense;   // others on servers
  std::vector<std::string> workers; // reduced among workers

  bool operator==(const PsPlacement&) const = default;
};

// By set_param_ps() or, without it, by ps_configs.parameters. Parameters that
// are not trained are the workers'. Throws InvalidArgument for a pattern that
// matches nothing, and for settings that servers do not have.
PsPlacement ps_placement(
    torch::nn::Module& module, const DistributedStrategy& strategy);

// Tables and dense values are made when the optimizer, which says how servers
// update them, is known. All workers call all of it alike.
class PsModel : public std::enable_shared_from_this<PsModel> {
 public:
  // Frees the memory of tables.
  static std::shared_ptr<PsModel> make(
      torch::nn::Module& module,
      const DistributedStrategy& strategy,
      std::shared_ptr<ps::Session> session);

  const PsPlacement& placement() const { return placement_; }

  // Makes what servers hold, updated as the optimizer would. Takes from the
  // optimizer's groups what it must not step itself. Throws InvalidArgument if
  // the model has an optimizer, or the optimizer lacks a parameter.
  void start(torch::optim::Optimizer& optimizer);
  // The same, for models that are not trained, unless it was done.
  void start();

  // One step of what servers and workers hold.
  void step(torch::optim::Optimizer& optimizer);

 private:
  struct Dense {
    std::string name;
    at::Tensor parameter;
  };
  // Where an optimizer has a parameter of the servers, and the rate they know.
  struct Rate {
    std::uint32_t table = 0;
    std::size_t group = 0;
    double rate = 0;
  };

  PsModel(
      torch::nn::Module& module,
      const DistributedStrategy& strategy,
      std::shared_ptr<ps::Session> session);

  bool is_geo() const;
  void make_tables(torch::optim::Optimizer* optimizer);
  void add_dense(torch::optim::Optimizer* optimizer);
  void update_rates(torch::optim::Optimizer& optimizer);

  const std::shared_ptr<DistributedStrategy> strategy_;
  const std::shared_ptr<ps::Session> session_;
  const PsPlacement placement_;
  std::vector<Dense> dense_;
  std::optional<ps::TableParameters> tables_;
  bool has_optimizer_ = false;
  std::vector<Rate> rates_;
};

} // namespace argosy::fleet
