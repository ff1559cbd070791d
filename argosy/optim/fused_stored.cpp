// Steps of a FusedOptimizer whose state is in a StateStore.

#include <algorithm>
#include <utility>

#include "argosy/optim/fused_entry.h"
#include "argosy/optim/fused_impl.h"

namespace argosy::optim {

using torch::optim::OptimizerOptions;
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

// Opens one buffer of states after the other and calls f with the entries in
// it, whose states are then there. Entries of a buffer are neighbours, because
// the layout follows the order of the parameters; memory is that of the store's
// open buffers.
template <typename F>
void FusedOptimizer::for_each_buffer(
    std::size_t group, std::vector<Entry>& entries, const F& f) {
  StoredStates& stored = *impl_->stored;
  const auto buffer_of = [&](const Entry& entry) {
    return stored.buffer_of(group, entry.index);
  };
  auto begin = entries.begin();
  while (begin != entries.end()) {
    const auto end = std::find_if(begin, entries.end(), [&](const Entry& each) {
      return buffer_of(each) != buffer_of(*begin);
    });
    stored.open(buffer_of(*begin));
    std::vector<Entry> opened(begin, end);
    for (Entry& entry : opened) {
      prepare_state(group, entry);
    }
    // f() may remove entries, whose states need the reset too.
    const std::vector<Entry> all = opened;
    f(opened);
    for (std::size_t i = 0; i < opened.size() && opened.size() == all.size();
         ++i) {
      begin[static_cast<std::ptrdiff_t>(i)].sums = opened[i].sums;
    }
    for (const Entry& entry : all) {
      release_state(group, entry);
    }
    // Written back before the next fetch, so that one buffer suffices.
    stored.close(true);
    begin = end;
  }
}

// The memory of the state is about to be put back.
void FusedOptimizer::release_state(std::size_t group, const Entry& entry) {
  if (entry.state == nullptr) {
    return;
  }
  StateTensors found = tensors_of(*entry.state, param_groups_[group].options());
  for (at::Tensor* tensor : found.tensors) {
    if (tensor != nullptr) {
      tensor->reset();
    }
  }
  found.master->reset();
  impl_->stored->set_has(group, entry.index);
}

// Whether norms of these parameters need sums of other ranks, whose buffers may
// begin and end elsewhere.
bool FusedOptimizer::exchanges_sums(
    std::size_t group, const std::vector<Entry>& entries) const {
  return measures(param_groups_[group].options()) &&
      (impl_->part_sums || std::ranges::any_of(entries, [](const Entry& entry) {
           return !part_groups(*entry.whole).empty();
         }));
}

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
    std::vector<Entry>& of = entries[group];
    const OptimizerOptions& options = param_groups_[group].options();
    if (!exchanges_sums(group, of)) {
      for_each_buffer(
          group, of, [&](auto& some) { update_group(group, some); });
      continue;
    }
    // Two passes over the buffers, with one exchange between them.
    for_each_buffer(group, of, [&](auto& some) { measure(options, some); });
    add_over_parts(of, impl_->part_sums.get());
    for_each_buffer(group, of, [&](auto& some) {
      note_writes(some);
      update(options, some);
    });
  }
  impl_->adopting = false;
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

bool FusedOptimizer::has_state_store() const {
  return impl_->stored != nullptr;
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
