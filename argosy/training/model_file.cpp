#include "argosy/training/model_file.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <numeric>
#include <optional>

#include "argosy/common/error.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/training/module_archive.h"

namespace argosy {

namespace {

std::optional<ProcessMesh> mesh_of_states(const torch::nn::Module& module) {
  std::optional<ProcessMesh> mesh;
  for (const auto& states :
       {module.named_parameters(), module.named_buffers()}) {
    for (const auto& item : states) {
      if (!is_dtensor(item.value())) {
        continue;
      }
      const ProcessMesh own = process_mesh_of(item.value());
      ARGOSY_CHECK(
          !mesh || *mesh == own,
          "[save_model] {} is on {}, others are on {}; expected one mesh. Save "
          "the modules of each mesh on their own",
          item.key(),
          own,
          *mesh);
      mesh = own;
    }
  }
  return mesh;
}

// All ranks of the world when there is none.
GroupPtr group_of_mesh(const std::optional<ProcessMesh>& mesh) {
  if (!mesh) {
    return get_group();
  }
  std::vector<int> axes(static_cast<std::size_t>(mesh->ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  return rank_mesh(*mesh)->group_over(axes);
}

at::Tensor whole_value(const std::string& name, const at::Tensor& state) {
  ARGOSY_CHECK(
      !state.is_meta(),
      "[save_model] {} has no values on this rank: a pipeline was cut from the "
      "module. CutStage::save() writes it",
      name);
  return full_tensor(state.detach());
}

void take_part(const at::Tensor& state, const at::Tensor& value) {
  if (state.is_meta()) {
    return;
  }
  ARGOSY_CHECK(
      state.sizes() == value.sizes(),
      "[load_model] a state has shape {} in the file, expected {}",
      value.sizes(),
      state.sizes());
  if (is_dtensor(state)) {
    state.copy_(shard_tensor(
        value,
        process_mesh_of(state),
        gradient_placements(placements_of(state))));
  } else {
    state.copy_(value);
  }
}

} // namespace

void save_model(
    const torch::nn::Module& module, const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  const GroupPtr group = group_of_mesh(mesh_of_states(module));
  const bool is_writer = group->rank() == 0;
  torch::serialize::OutputArchive archive;
  training::fill_archive(
      archive, module, [&](const std::string& name, const at::Tensor& state) {
        const at::Tensor whole = whole_value(name, state);
        // Copied, as LibTorch writes all of the memory that a view is in.
        return is_writer ? whole.clone() : at::Tensor();
      });
  training::run_on_first(
      {group}, "save_model", [&] { training::write_archive(path, archive); });
}

void load_model(torch::nn::Module& module, const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  torch::serialize::InputArchive archive;
  archive.load_from(path.string());
  training::read_archive(archive, module, &take_part);
}

} // namespace argosy
