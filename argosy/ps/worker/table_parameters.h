#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/ps/worker/session.h"

namespace torch::nn {
class Module;
}

namespace argosy::ps {

struct TableParameterOptions {
  // Which parameters become tables, by their names in named_parameters();
  // unset: the weights of all Embedding and EmbeddingBag modules.
  std::function<bool(const std::string& name)> choose{};
  RuleConfig rule{}; // how servers update rows, and where these begin
  CacheOptions cache{};
};

// Makes the weights of an unchanged model's torch::nn::Embedding and
// EmbeddingBag modules tables on the servers: MindSpore's set_param_ps() with
// init_in_server. The worker's memory of them is freed; the modules' forward()
// pulls rows, Session::step() pushes their gradients, and optimizers leave the
// parameters alone, as they never have gradients. Other ops on them give
// tensors of the meta device, without values. Rows begin with values that the
// rule draws.
//
// All workers call it alike. Returns the names of the parameters, which are
// those of the tables. Throws InvalidArgument if a chosen parameter is no
// weight of such a module, or none is chosen.
std::vector<std::string> set_param_ps(
    torch::nn::Module& module,
    const std::shared_ptr<Session>& session,
    const TableParameterOptions& options = {});

} // namespace argosy::ps
