#pragma once

#include "argosy/ps/table/dense_table.h"
#include "argosy/ps/table/rule.h"

namespace torch::optim {
class OptimizerOptions;
}

// How servers do what an optimizer would: docs/parameter-server.md has the
// table. Not installed.
namespace argosy::fleet {

struct PsConfigs;

// Throw InvalidArgument for optimizers and options that servers do not have,
// naming them. Null: the defaults of the reference.
ps::RuleConfig row_rule_of(
    const torch::optim::OptimizerOptions* options, const PsConfigs& configs);
ps::DenseConfig dense_rule_of(const torch::optim::OptimizerOptions* options);

} // namespace argosy::fleet
