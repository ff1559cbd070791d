// Steps of a FusedOptimizer whose state is in a StateStore.

#include <algorithm>
#include <utility>

#include "argosy/optim/fused_entry.h"
#include "argosy/optim/fused_impl.h"

namespace argosy::optim {

using torch::optim::OptimizerParamGroup;

// The sizes of all states with the current options.
std::vector<std::vector<StateSize>> FusedOptimizer::state_sizes() const {
  std::vector<std::vector<StateSize>> sizes;
  for (const OptimizerParamGroup& group : param_groups_) {
    const auto state = new_state();
    const StateTensors found = tensors_of(*state, group.options());
    const auto count = std::ranges::count_if(
        found.tensors, [](const at::Tensor* each) { return each != nullptr; });
    auto& of_group = sizes.emplace_back();
    for (const at::Tensor& param : locals_of(group.params())) {
      const auto format = format_of(param);
      const bool masters = format && has_master(*format);
      of_group.push_back(
          {.numel = param.numel(),
           .element_bytes = param.scalar_type() == c10::kDouble ? 8 : 4,
           .num_tensors = count + (masters ? 1 : 0)});
    }
  }
  return sizes;
}

// Opens one buffer of states at a time and updates the parameters in it.
// Entries of a buffer are neighbours, because the layout follows the order of
// the parameters; memory is that of the store's open buffers.
void FusedOptimizer::step_by_buffer(std::vector<std::vector<Entry>>& entries) {
  StoredStates& stored = *impl_->stored;
  auto sizes = state_sizes();
  // Options or parameters have changed since the layout was made (or there is
  // none yet): rescue what is stored, then write it into the new layout.
  if (!stored.fits(sizes)) {
    copy_states();
    stored.lay_out(std::move(sizes));
  }
  for (std::size_t group = 0; group < entries.size(); ++group) {
    const auto buffer_of = [&](const Entry& entry) {
      return stored.buffer_of(group, entry.index);
    };
    auto begin = entries[group].begin();
    while (begin != entries[group].end()) {
      const auto end =
          std::find_if(begin, entries[group].end(), [&](const Entry& entry) {
            return buffer_of(entry) != buffer_of(*begin);
          });
      stored.open(buffer_of(*begin));
      step_buffer(group, {begin, end});
      // Written back before the next fetch, so that one buffer suffices.
      stored.close(true);
      begin = end;
    }
  }
  impl_->adopting = false;
}

void FusedOptimizer::step_buffer(
    std::size_t group, std::vector<Entry> entries) {
  for (Entry& entry : entries) {
    prepare_state(group, entry);
  }
  // update_group() removes sparse entries, whose states need the reset too.
  const std::vector<Entry> all = entries;
  update_group(group, entries);
  for (const Entry& entry : all) {
    if (entry.state == nullptr) {
      continue;
    }
    // The memory of the state is about to be put back.
    StateTensors found =
        tensors_of(*entry.state, param_groups_[group].options());
    for (at::Tensor* tensor : found.tensors) {
      if (tensor != nullptr) {
        tensor->reset();
      }
    }
    found.master->reset();
    impl_->stored->set_has(group, entry.index);
  }
}

// Copies the stored states into state(), and returns the tensors that it has
// set.
std::vector<at::Tensor*> FusedOptimizer::copy_states() const {
  std::vector<at::Tensor*> copies;
  StoredStates& stored = *impl_->stored;
  for (std::size_t group = 0; group < param_groups_.size(); ++group) {
    const auto& params = param_groups_[group].params();
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!stored.has(group, i)) {
        continue;
      }
      stored.open(stored.buffer_of(group, i));
      const at::Tensor& param = local_of(params[i]);
      const auto type =
          param.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
      std::int64_t number = 0;
      const auto copy = [&](at::Tensor* to) {
        *to = stored.view(group, i, number++, param, type).clone();
        copies.push_back(to);
      };
      StateTensors found = tensors_of(
          *state_.at(impl_->key(group, i, params[i])),
          param_groups_[group].options());
      for (at::Tensor* tensor : found.tensors) {
        if (tensor != nullptr) {
          copy(tensor);
        }
      }
      if (has_master(*format_of(param))) {
        copy(found.master);
      }
    }
  }
  // Only read: the store need not write the buffer back.
  stored.close(false);
  return copies;
}

std::shared_ptr<void> FusedOptimizer::states_in_memory() const {
  if (!impl_->stored) {
    return nullptr;
  }
  // The deleter ends the copies: state() is whole only as long as the caller
  // holds the result.
  return std::shared_ptr<std::vector<at::Tensor*>>(
      new std::vector<at::Tensor*>(copy_states()), [](auto* copies) {
        for (at::Tensor* copy : *copies) {
          copy->reset();
        }
        delete copies;
      });
}

void FusedOptimizer::set_state_store(std::shared_ptr<StateStore> store) {
  if (impl_->stored) {
    // While the old store is still there: the next step moves the copies into
    // the new store or into arenas.
    copy_states();
  }
  impl_->stored =
      store ? std::make_unique<StoredStates>(std::move(store)) : nullptr;
  impl_->arenas.clear();
  adopt_states();
}

} // namespace argosy::optim
