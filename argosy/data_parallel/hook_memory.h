#pragma once

#include <string>
#include <utility>
#include <vector>

#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/training/parallel_model.h"

// What a hook keeps between steps, as models give it to checkpoints. Not
// installed.
namespace argosy::data_parallel {

// For whom the memory is: these ranks, and parameters of these names and
// numbers of elements. Elsewhere it would have no meaning.
struct MemoryOwner {
  GroupPtr group;
  std::vector<std::pair<std::string, std::int64_t>> parameters;
};

// Empty if the hook is null or keeps nothing.
training::ModelCore::Memory memory_of(
    const BucketHook* hook, const MemoryOwner& owner);

// Does nothing if the memory is not of this owner: the hook begins anew, on all
// ranks of the group alike.
void set_memory_of(
    BucketHook* hook,
    const MemoryOwner& owner,
    training::ModelCore::Memory memory);

// Calls f(parameter, kind, tensor) for each entry "3.error".
template <typename F>
void for_each_kept(const HookMemory& memory, const F& f) {
  for (const auto& [name, tensor] : memory) {
    const std::size_t dot = name.find('.');
    f(static_cast<std::size_t>(std::stoul(name.substr(0, dot))),
      name.substr(dot + 1),
      tensor);
  }
}

} // namespace argosy::data_parallel
