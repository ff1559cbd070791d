#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/fused.h"
#include "argosy/optim/local.h"
#include "argosy/optim/stored_states.h"

// Shared by the source files of FusedOptimizer.
namespace argosy::optim {

// A parameter as torch::optim's state() knows it.
struct Key {
  const void* impl = nullptr;
  std::string text;
};

struct FusedOptimizer::Impl {
  // By group and index in the group.
  std::vector<std::vector<Key>> keys;
  // Flat buffers of state, by group, kind of state and type.
  std::map<std::tuple<std::size_t, std::size_t, c10::ScalarType>, FlatTensors>
      arenas;
  // Used instead of the arenas if a StateStore is set; else null.
  std::unique_ptr<StoredStates> stored;
  std::shared_ptr<PartSums> part_sums; // may be null
  // The next step moves states that lie elsewhere into the arenas or the store.
  bool adopting = false;

  const std::string& key(
      std::size_t group, std::size_t index, const at::Tensor& param) {
    keys.resize(std::max(keys.size(), group + 1));
    auto& of_group = keys[group];
    of_group.resize(std::max(of_group.size(), index + 1));
    Key& found = of_group[index];
    if (found.impl != param.unsafeGetTensorImpl()) {
      found.impl = param.unsafeGetTensorImpl();
      found.text = c10::guts::to_string(param.unsafeGetTensorImpl());
    }
    return found.text;
  }

  at::Tensor place(
      const std::vector<at::Tensor>& params,
      std::size_t group,
      std::size_t index,
      std::size_t kind,
      c10::ScalarType type) {
    FlatTensors& arena = arenas[{group, kind, type}];
    if (arena.views.size() < params.size() ||
        arena.views[index].sizes() != local_of(params[index]).sizes()) {
      arena =
          flat_zeros(locals_of(params), type); // views of an older one keep it
    }
    return arena.views[index];
  }
};

} // namespace argosy::optim
