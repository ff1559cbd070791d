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

// Each tensor once, under its first name: modules may share parameters.
NamedTensors distinct(const torch::OrderedDict<std::string, at::Tensor>& named);

// Those that train.
NamedTensors trainable(const NamedTensors& parameters);

// Throws InvalidArgument, on all ranks, when the tensors of a rank differ from
// those of the group's first in name, shape or type; names the first that does.
// `what` they are, for the text.
void check_same(
    const NamedTensors& tensors,
    const GroupPtr& group,
    const char* what = "modules");

// Gives all ranks the values of `source` (a global rank).
void share_values(
    const NamedTensors& tensors, int source, const GroupPtr& group);

} // namespace argosy::data_parallel
