#include <torch/nn/module.h>
#include <torch/serialize.h>

#include "argosy/common/error.h"
#include "argosy/sharding/group_sharded.h"
#include "argosy/training/module_archive.h"

namespace argosy::sharding {

namespace {

namespace fs = std::filesystem;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr char kModel[] = "model.pt";
constexpr char kOptimizer[] = "optimizer.pt";

void check_place(const fs::path& output) {
  ARGOSY_CHECK(
      !fs::exists(output) || fs::is_directory(output),
      "[sharding.save] {} is a file, expected a directory",
      output.string());
}

using training::write_archive;

void write_model(const fs::path& path, const torch::nn::Module& module) {
  OutputArchive archive;
  // With copies: torch::save() would write the whole buffer that a parameter is
  // a view of.
  training::fill_archive(
      archive, module, [](const std::string&, const at::Tensor& state) {
        return state.detach().clone();
      });
  write_archive(path, archive);
}

void write_states(const fs::path& path, const optim::StateDict& states) {
  OutputArchive archive;
  std::vector<std::string> names;
  for (const auto& [name, state] : states) {
    archive.write(std::to_string(names.size()), state);
    names.push_back(name);
  }
  c10::List<std::string> list;
  for (const std::string& name : names) {
    list.push_back(name);
  }
  archive.write("names", c10::IValue(list));
  write_archive(path, archive);
}

optim::StateDict read_states(const fs::path& path) {
  InputArchive archive;
  archive.load_from(path.string());
  c10::IValue names;
  archive.read("names", names);
  optim::StateDict states;
  std::size_t number = 0;
  for (const c10::IValue& name : names.toListRef()) {
    archive.read(std::to_string(number++), states[name.toStringRef()]);
  }
  return states;
}

} // namespace

void save_group_sharded_model(
    ShardedCore& core, const fs::path& output, ShardedOptimizer* optimizer) {
  check_place(output);
  optim::StateDict states;
  if (optimizer != nullptr) {
    states = optimizer->state_dict();
  }
  core.begin_whole();
  const auto write = [&] {
    fs::create_directories(output);
    write_model(output / kModel, core.module());
    if (optimizer != nullptr) {
      write_states(output / kOptimizer, states);
    }
  };
  // The writer's error first reaches the first ranks of the other groups, then
  // each of those tells its group.
  training::run_on_first(
      {core.dp_group(), core.group()}, "sharding.save", write);
  core.end_whole();
}

void load_group_sharded_model(
    ShardedCore& core, const fs::path& input, ShardedOptimizer* optimizer) {
  InputArchive archive;
  archive.load_from((input / kModel).string());
  core.begin_whole();
  {
    const at::NoGradGuard no_grad;
    // Into the existing memory, which is shared with buckets.
    training::read_archive(
        archive,
        core.module(),
        [](const at::Tensor& state, const at::Tensor& value) {
          state.copy_(value);
        });
  }
  core.end_whole();
  if (optimizer != nullptr) {
    optimizer->load_state_dict(read_states(input / kOptimizer));
  }
}

} // namespace argosy::sharding
