#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "argosy/comm/group.h"

namespace torch::nn {
class Module;
}
namespace torch::serialize {
class InputArchive;
class OutputArchive;
} // namespace torch::serialize

// Archives of modules as torch::save() and torch::load() have them, where a
// rank does not have the values as they are in the file. Not installed.
namespace argosy::training {

// The whole value of a state, as a plain tensor; undefined on a rank that
// writes nothing. `name` is that of named_parameters() and named_buffers().
using WholeOf =
    std::function<at::Tensor(const std::string& name, const at::Tensor& state)>;

// As Module::save(), with the values that `whole_of` gives. Asks for all states
// in the same order on all ranks.
void fill_archive(
    torch::serialize::OutputArchive& archive,
    const torch::nn::Module& module,
    const WholeOf& whole_of);

// As Module::load(), but `take` brings each value into the state.
using TakeValue =
    std::function<void(const at::Tensor& state, const at::Tensor& value)>;
void read_archive(
    torch::serialize::InputArchive& archive,
    torch::nn::Module& module,
    const TakeValue& take);

// Readers see the old file or the new one, never a part.
void write_archive(
    const std::filesystem::path& path,
    torch::serialize::OutputArchive& archive);

// Runs `action` on the rank that is the first of all `groups`; null ones count
// as groups of one. If it fails there, all ranks throw SystemError, tagged with
// `op`: group after group learns of it from its first rank.
void run_on_first(
    const std::vector<GroupPtr>& groups,
    const std::string& op,
    const std::function<void()>& action);

} // namespace argosy::training
