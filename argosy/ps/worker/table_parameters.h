#pragma once

#include <ATen/core/Tensor.h>

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
  // Rows begin with what the rule draws; false: with the module's values, those
  // of worker 0, unless the servers have loaded the table.
  bool init_in_server = true;
  int shard_num = 0; // see SparseConfig; 0: default_shard_num()
  CacheOptions cache{};
};

// Makes the weights of an unchanged model's torch::nn::Embedding and
// EmbeddingBag modules tables on the servers: MindSpore's set_param_ps() with
// init_in_server. The worker's memory of them is freed; the modules' forward()
// pulls rows, Session::step() pushes their gradients, and optimizers leave the
// parameters alone, as they never have gradients. Other ops on them give
// tensors of the meta device, without values.
//
// All workers call it alike. Returns the names of the parameters, which are
// those of the tables. Throws InvalidArgument if a chosen parameter is no
// weight of such a module, if none is chosen, or if the session has a table of
// that name.
std::vector<std::string> set_param_ps(
    torch::nn::Module& module,
    const std::shared_ptr<Session>& session,
    const TableParameterOptions& options = {});

// The same in two steps, for callers that learn later how servers update rows.
class TableParameters {
 public:
  // Frees the memory of the weights that `choose` names; unset: all.
  TableParameters(
      torch::nn::Module& module,
      std::shared_ptr<Session> session,
      const std::function<bool(const std::string& name)>& choose,
      bool init_in_server = true);

  struct Table {
    std::string name;
    at::Tensor weight;
    std::uint32_t id = 0; // 0 before make()
    // Worker 0's, unless init_in_server, until make() has sent them.
    at::Tensor values{};
  };
  // In the order of the model's modules.
  const std::vector<Table>& tables() const;

  // Makes the tables, in that order. Once; all workers call it alike.
  using OptionsOf = std::function<TableParameterOptions(const Table& table)>;
  void make(const OptionsOf& options_of);
  bool is_made() const;

  // What the first lookup calls if make() was not; it must call make().
  void set_maker(std::function<void()> maker);

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// The names of the parameters that may become tables.
std::vector<std::string> embedding_weights(torch::nn::Module& module);

// Whether the parameter stands for a table.
bool is_table(const at::Tensor& parameter);

} // namespace argosy::ps
