#pragma once

#include <string>
#include <vector>

#include "argosy/comm/ops.h"

namespace torch {
template <typename Key, typename Value>
class OrderedDict;
}

namespace argosy::data_parallel {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// The tensors without duplicates, each under its first name. Modules may share
// parameters.
NamedTensors distinct(const torch::OrderedDict<std::string, at::Tensor>& named);

// The parameters that require gradients.
NamedTensors trainable(const NamedTensors& parameters);

// Collective. Throws InvalidArgument on all ranks if the tensors of a rank
// differ from those of the group's first rank in name, shape or type. The
// message names the first that differs, and `what` the tensors belong to.
void check_same(
    const NamedTensors& tensors,
    const GroupPtr& group,
    const char* what = "modules");

// Collective: copies the values of `source` (a global rank) to all ranks.
void share_values(
    const NamedTensors& tensors, int source, const GroupPtr& group);

} // namespace argosy::data_parallel
