#include "argosy/training/module_archive.h"

#include <torch/nn/module.h>
#include <torch/serialize.h>

#include <algorithm>
#include <sstream>

#include "argosy/comm/objects.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::training {

namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

void fill_from(
    OutputArchive& archive,
    const torch::nn::Module& module,
    const std::string& prefix,
    const WholeOf& whole_of) {
  const auto write = [&](const auto& states, bool is_buffer) {
    for (const auto& item : states) {
      const at::Tensor value = whole_of(prefix + item.key(), item.value());
      if (value.defined()) {
        archive.write(item.key(), value, is_buffer);
      }
    }
  };
  write(module.named_parameters(false), false);
  write(module.named_buffers(false), true);
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      OutputArchive inner(archive.compilation_unit());
      fill_from(inner, *child.value(), prefix + child.key() + ".", whole_of);
      archive.write(child.key(), inner);
    }
  }
}

} // namespace

void fill_archive(
    OutputArchive& archive,
    const torch::nn::Module& module,
    const WholeOf& whole_of) {
  fill_from(archive, module, "", whole_of);
}

void read_archive(
    InputArchive& archive, torch::nn::Module& module, const TakeValue& take) {
  const auto read = [&](const auto& states, bool is_buffer) {
    for (const auto& item : states) {
      at::Tensor value;
      archive.read(item.key(), value, is_buffer);
      take(item.value(), value);
    }
  };
  read(module.named_parameters(false), false);
  read(module.named_buffers(false), true);
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      InputArchive inner;
      archive.read(child.key(), inner);
      read_archive(inner, *child.value(), take);
    }
  }
}

void write_archive(const std::filesystem::path& path, OutputArchive& archive) {
  std::ostringstream bytes;
  archive.save_to(bytes);
  write_file(path, bytes.str());
}

void run_on_first(
    const std::vector<GroupPtr>& groups,
    const std::string& op,
    const std::function<void()>& action) {
  const bool is_first = std::ranges::all_of(groups, [](const GroupPtr& group) {
    return group == nullptr || group->rank() == 0;
  });
  std::vector<std::string> errors{""};
  if (is_first) {
    try {
      action();
    } catch (const std::exception& failure) {
      errors.front() = failure.what();
    }
  }
  for (const GroupPtr& group : groups) {
    if (group) {
      broadcast_object_list(errors, group->ranks().front(), group);
    }
  }
  if (!errors.front().empty()) {
    throw SystemError(str("[", op, "] ", errors.front()));
  }
}

} // namespace argosy::training
