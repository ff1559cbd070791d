#include "argosy/data_parallel/same_modules.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/ordered_dict.h>

#include <unordered_set>

#include "argosy/comm/coalesce.h"
#include "argosy/comm/objects.h"
#include "argosy/comm/operation/label.h"
#include "argosy/common/error.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::data_parallel {

namespace {

// "weight float32 [3, 4]"
std::vector<std::string> texts_of(const NamedTensors& tensors) {
  std::vector<std::string> texts;
  for (const auto& [name, tensor] : tensors) {
    texts.push_back(argosy::str(
        name,
        " ",
        c10::toString(tensor.scalar_type()),
        " ",
        tensor.sizes(),
        tensor.requires_grad() ? "" : " without gradient"));
  }
  return texts;
}

// Describes the first difference; empty if there is none.
std::string difference(
    const std::vector<std::string>& own,
    const std::vector<std::string>& first) {
  for (std::size_t i = 0; i < std::max(own.size(), first.size()); ++i) {
    const std::string mine = i < own.size() ? own[i] : "nothing";
    const std::string theirs = i < first.size() ? first[i] : "nothing";
    if (mine != theirs) {
      return str_format(
          "tensor {} is {}, on the first rank it is {}", i, mine, theirs);
    }
  }
  return "";
}

// Collectives refuse DTensors too, but do not know their names.
void check_plain(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    ARGOSY_CHECK(
        !is_dtensor(tensor),
        "[data_parallel] {} is a DTensor, expected a plain tensor. A model of "
        "DTensors needs no DataParallel and no sharding:: around it: cut each "
        "batch over an axis of the mesh with shard_tensor() or "
        "shard_dataloader(), and backward reduces the gradients over it; "
        "shard_optimizer() shards the state",
        name.empty() ? "a parameter" : name);
  }
}

} // namespace

// Tied parameters appear under several names but have one gradient, which must
// lie in one bucket only. The first name counts on all ranks. Those on
// parameter servers are none of the ranks' business.
NamedTensors distinct(
    const torch::OrderedDict<std::string, at::Tensor>& named) {
  NamedTensors result;
  std::unordered_set<const void*> seen;
  for (const auto& item : named) {
    if (item.value().defined() && !marks_of(item.value()).on_servers &&
        seen.insert(item.value().unsafeGetTensorImpl()).second) {
      result.emplace_back(item.key(), item.value());
    }
  }
  return result;
}

NamedTensors trainable(const NamedTensors& parameters) {
  NamedTensors result;
  for (const auto& named : parameters) {
    if (named.second.requires_grad()) {
      result.push_back(named);
    }
  }
  return result;
}

void check_same(
    const NamedTensors& tensors, const GroupPtr& group, const char* what) {
  static const OpLabel label("check that the models are the same");
  const LabelScope scope(label);
  const std::vector<std::string> own = texts_of(tensors);
  std::vector<std::vector<std::string>> lists = {own};
  broadcast_object_list(lists, group->ranks().front(), group);
  // All ranks learn of all differences, so that all of them throw instead of
  // one that leaves the others waiting.
  std::vector<std::string> differences;
  all_gather_object(differences, difference(own, lists.front()), group);
  for (std::size_t i = 0; i < differences.size(); ++i) {
    ARGOSY_CHECK(
        differences[i].empty(),
        "[data_parallel] the {} of the ranks differ: on rank {} {}",
        what,
        group->ranks()[i],
        differences[i]);
  }
}

void share_values(
    const NamedTensors& tensors, int source, const GroupPtr& group) {
  constexpr std::size_t kLarge = std::size_t{1}
      << 20; // bytes; sent without packing
  check_plain(tensors);
  const at::NoGradGuard no_grad;
  static const OpLabel label("values of the model");
  const LabelScope scope(label);
  Tensors small;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.nbytes() >= kLarge) {
      broadcast(tensor, source, group);
    } else {
      small.push_back(tensor);
    }
  }
  broadcast_coalesced(small, source, group);
}

} // namespace argosy::data_parallel
