#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <sstream>

#include "argosy/comm/objects.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/sharding/group_sharded.h"

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

void write_archive(const fs::path& path, OutputArchive& archive) {
  std::ostringstream bytes;
  archive.save_to(bytes);
  write_file(path, bytes.str());
}

// As Module::save(), but with copies: torch::save() would write the whole
// buffer that a parameter is a view of.
void fill(OutputArchive& archive, const torch::nn::Module& module) {
  for (const auto& item : module.named_parameters(false)) {
    archive.write(item.key(), item.value().detach().clone());
  }
  for (const auto& item : module.named_buffers(false)) {
    archive.write(item.key(), item.value().clone(), true);
  }
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      OutputArchive inner(archive.compilation_unit());
      fill(inner, *child.value());
      archive.write(child.key(), inner);
    }
  }
}

// As Module::load(), but copies into the existing memory, which is shared with
// buckets.
void take(InputArchive& archive, torch::nn::Module& module) {
  const auto copy = [&](const auto& named, bool is_buffer) {
    for (const auto& item : named) {
      at::Tensor value;
      archive.read(item.key(), value, is_buffer);
      item.value().copy_(value);
    }
  };
  copy(module.named_parameters(false), false);
  copy(module.named_buffers(false), true);
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      InputArchive inner;
      archive.read(child.key(), inner);
      take(inner, *child.value());
    }
  }
}

void write_model(const fs::path& path, const torch::nn::Module& module) {
  OutputArchive archive;
  fill(archive, module);
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

// Runs `action` on the first rank of `group` and `dp_group`. If it fails there,
// all ranks throw.
template <typename F>
void on_first(const ShardedCore& core, const char* what, const F& action) {
  const GroupPtr& copies = core.dp_group();
  std::string error;
  if (core.group()->rank() == 0 && (!copies || copies->rank() == 0)) {
    try {
      action();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  }
  std::vector<std::string> errors{error};
  // The writer's error first reaches the first ranks of the other groups, then
  // each of those tells its group.
  for (const GroupPtr& group : {copies, core.group()}) {
    if (group) {
      broadcast_object_list(errors, group->ranks().front(), group);
    }
  }
  if (!errors.front().empty()) {
    throw SystemError(str("[sharding.", what, "] ", errors.front()));
  }
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
  on_first(core, "save", write);
  core.end_whole();
}

void load_group_sharded_model(
    ShardedCore& core, const fs::path& input, ShardedOptimizer* optimizer) {
  InputArchive archive;
  archive.load_from((input / kModel).string());
  core.begin_whole();
  {
    const at::NoGradGuard no_grad;
    take(archive, core.module());
  }
  core.end_whole();
  if (optimizer != nullptr) {
    optimizer->load_state_dict(read_states(input / kOptimizer));
  }
}

} // namespace argosy::sharding
