#include "argosy/compat/net_checkpoint.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstring>

#include "argosy/checkpoint/local_pieces.h"
#include "argosy/common/error.h"
#include "argosy/common/log.h"
#include "argosy/compat/redundancy.h"
#include "argosy/compat/saved_slices.h"
#include "argosy/dtensor/tensor/convert.h"
#include "argosy/training/held_part.h"
#include "argosy/world/world.h"

namespace argosy {

namespace {

int my_rank() {
  const auto world = current_world();
  return world ? world->rank() : 0;
}

// Parameters and buffers that have memory here: others are on other stages.
std::map<std::string, at::Tensor> states_of(const torch::nn::Module& net) {
  std::map<std::string, at::Tensor> states;
  for (const auto& items : {net.named_parameters(), net.named_buffers()}) {
    for (const auto& item : items) {
      if (item.value().defined() && !item.value().is_meta()) {
        states[item.key()] = item.value();
      }
    }
  }
  return states;
}

std::vector<std::string> names_of(const auto& by_name) {
  std::vector<std::string> names;
  for (const auto& item : by_name) {
    names.push_back(item.first);
  }
  return names;
}

// The block of a tensor that this rank has, and its memory: none on a rank that
// is not in its mesh.
training::HeldPart local_slice(
    const std::string& name, const at::Tensor& state) {
  training::HeldPart part = training::held_part(state);
  ARGOSY_CHECK(
      !part.range,
      "[checkpoint] this rank has a range of the elements of {}, expected a "
      "block; argosy/checkpoint saves and loads it",
      name);
  return part;
}

at::Tensor whole_value(const std::string& name, const at::Tensor& state) {
  if (!is_dtensor(state)) {
    const training::HeldPart part = local_slice(name, state);
    ARGOSY_CHECK(
        part.box.size == part.whole,
        "[save_checkpoint] {} is a slice of a parallel layer, expected a "
        "DTensor or a whole tensor; save slices (integrated_save = false)",
        name);
  }
  return full_tensor(state).detach();
}

compat::TensorSource source_of(
    const std::string& name,
    const at::Tensor& values,
    const training::HeldPart* slice) {
  compat::TensorSource source;
  source.info = {
      name,
      checkpoint::dtype_of(values.scalar_type(), name),
      values.sizes().vec()};
  source.fill = [values](std::span<std::byte> bytes) {
    if (!bytes.empty()) {
      const at::Tensor dense = values.cpu().contiguous();
      std::memcpy(bytes.data(), dense.data_ptr(), bytes.size());
    }
  };
  if (slice != nullptr && slice->box.size != slice->whole) {
    source.whole = slice->whole;
    source.box = slice->box;
  }
  return source;
}

std::vector<compat::TensorSource> whole_sources(
    const std::map<std::string, at::Tensor>& states) {
  std::vector<compat::TensorSource> sources;
  for (const auto& [name, state] : states) {
    sources.push_back(source_of(name, whole_value(name, state), nullptr));
  }
  return sources;
}

std::vector<compat::TensorSource> sliced_sources(
    const torch::nn::Module& net, const SaveCheckpointOptions& options) {
  std::set<std::string> mine;
  if (options.remove_redundancy) {
    mine = parameters_to_save(
        strategy_of(net), options.keep_redundancy)[my_rank()];
  }
  std::vector<compat::TensorSource> sources;
  for (const auto& [name, state] : states_of(net)) {
    if (!options.remove_redundancy || mine.contains(name)) {
      const training::HeldPart slice = local_slice(name, state);
      if (slice.values.defined()) {
        sources.push_back(source_of(name, slice.values.detach(), &slice));
      }
    }
  }
  return sources;
}

// Does not own the memory.
at::Tensor tensor_of_bytes(
    const checkpoint::TensorInfo& info, std::span<const std::byte> bytes) {
  return torch::from_blob(
      const_cast<std::byte*>(bytes.data()), // NOLINT: it is only read
      info.shape,
      checkpoint::scalar_type_of(info.dtype, info.name));
}

// This rank's part of a value of the whole or of the part.
at::Tensor part_of(
    const training::HeldPart& slice, const CheckpointTensor& saved) {
  at::Tensor value = tensor_of_bytes(saved.info, saved.bytes);
  if (saved.info.shape == slice.box.size) {
    return value;
  }
  for (std::size_t dim = 0; dim < slice.box.size.size(); ++dim) {
    value = value.narrow(
        static_cast<std::int64_t>(dim),
        slice.box.offset[dim],
        slice.box.size[dim]);
  }
  return value;
}

void check_fit(
    const std::string& name,
    const training::HeldPart& slice,
    const checkpoint::TensorInfo& saved,
    bool strict) {
  ARGOSY_CHECK(
      saved.shape == slice.whole || saved.shape == slice.box.size,
      "[load_param_into_net] {} is {}, expected the whole {} or the slice {}",
      name,
      saved,
      c10::IntArrayRef(slice.whole),
      slice.box);
  ARGOSY_CHECK(
      !strict ||
          checkpoint::scalar_type_of(saved.dtype, name) ==
              slice.values.scalar_type(),
      "[load_param_into_net] {} is {}, expected {}",
      name,
      saved,
      slice.values.scalar_type());
}

void warn_of(const NotLoaded& left) {
  if (!left.param_not_load.empty()) {
    log::warn(
        "[checkpoint] {} parameters are not in the checkpoint, the first is {}",
        left.param_not_load.size(),
        left.param_not_load.front());
  }
}

} // namespace

void save_checkpoint(
    const torch::nn::Module& net,
    const std::filesystem::path& file,
    const SaveCheckpointOptions& options) {
  ARGOSY_CHECK(
      !options.integrated_save || !options.remove_redundancy,
      "[save_checkpoint] remove_redundancy with integrated_save, expected "
      "slices");
  const at::NoGradGuard no_grad;
  auto sources = options.integrated_save ? whole_sources(states_of(net))
                                         : sliced_sources(net, options);
  compat::write_rank_file(
      file,
      std::move(sources),
      {{"format", "pt"},
       {"remove_redundancy", options.remove_redundancy ? "True" : "False"}});
}

ParallelStrategy strategy_of(const torch::nn::Module& net) {
  const auto world = current_world();
  ProcessMesh mesh = ProcessMesh::of_shape({world ? world->size() : 1});
  const auto states = states_of(net);
  for (const auto& [name, state] : states) {
    if (is_dtensor(state) && process_mesh_of(state).contains(my_rank())) {
      mesh = process_mesh_of(state);
      break;
    }
  }
  std::vector<PlacedTensor> placed;
  for (const auto& [name, state] : states) {
    ARGOSY_CHECK(
        is_dtensor(state) ||
            training::held_part(state).whole == state.sizes().vec(),
        "[strategy_of] {} is a slice of a parallel layer, which does not know "
        "its mesh; expected a DTensor or a whole tensor",
        name);
    placed.push_back(
        {name,
         state.sizes().vec(),
         is_dtensor(state) ? dist_attr(state)
                           : DistAttr(mesh, dtensor::replicated_on(mesh))});
  }
  return strategy_of(placed);
}

NotLoaded load_param_into_net(
    torch::nn::Module& net, const ParameterDict& parameters, bool strict_load) {
  const at::NoGradGuard no_grad;
  const auto states = states_of(net);
  const auto matches = compat::match_parameters(
      names_of(states), names_of(parameters), strict_load);
  std::map<std::string, training::HeldPart> slices;
  for (const auto& [name, saved] : matches.in_checkpoint) {
    const training::HeldPart slice = local_slice(name, states.at(name));
    if (slice.values.defined()) {
      check_fit(name, slice, parameters.at(saved).info, strict_load);
      slices[name] = slice;
    }
  }
  for (const auto& [name, slice] : slices) {
    const auto& saved = parameters.at(matches.in_checkpoint.at(name));
    if (slice.values.numel() > 0) {
      slice.values.copy_(part_of(slice, saved));
    }
  }
  warn_of(matches.not_loaded);
  return matches.not_loaded;
}

NotLoaded load_distributed_checkpoint(
    torch::nn::Module& net,
    const std::vector<std::filesystem::path>& checkpoint_filenames,
    const StrategyArgument& train_strategy,
    bool strict_load) {
  ParallelStrategy mine = strategy_of(net);
  if (train_strategy) {
    // The net's own names are those of the checkpoint in the plan.
    const auto saved = compat::job_layout(*train_strategy);
    const bool staged = compat::has_all_stages(mine);
    const auto matches = compat::match_parameters(
        names_of(compat::job_layout(mine).parameters),
        names_of(saved.parameters),
        strict_load);
    std::map<std::string, ParallelLayout> renamed;
    for (const auto& [key, layout] : mine.layouts) {
      const auto [stage, name] =
          staged ? compat::split_stage(key) : std::pair{-1, key};
      const auto other = matches.in_checkpoint.find(name);
      const auto& target =
          other == matches.in_checkpoint.end() ? name : other->second;
      renamed[staged ? str(stage, "-", target) : target] = layout;
    }
    mine.layouts = std::move(renamed);
  }
  const ParameterDict dict = load_distributed_checkpoint(
      checkpoint_filenames, mine, train_strategy, my_rank());
  return load_param_into_net(net, dict, strict_load);
}

at::Tensor merge_sliced_parameter(
    const std::string& name,
    const std::vector<at::Tensor>& sliced_parameters,
    const StrategyArgument& strategy) {
  std::vector<CheckpointTensor> slices;
  for (const at::Tensor& slice : sliced_parameters) {
    const auto source = source_of(name, slice.detach(), nullptr);
    CheckpointTensor& tensor = slices.emplace_back();
    tensor.info = source.info;
    tensor.bytes.resize(compat::bytes_of(source.info));
    source.fill(tensor.bytes);
  }
  const CheckpointTensor whole = merge_sliced_parameter(slices, strategy);
  return tensor_of_bytes(whole.info, whole.bytes).clone();
}

} // namespace argosy
