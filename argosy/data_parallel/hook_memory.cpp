#include "argosy/data_parallel/hook_memory.h"

#include <ATen/ops/empty.h>

#include <cstring>

#include "argosy/common/error.h"
#include "argosy/common/log.h"

namespace argosy::data_parallel {

namespace {

constexpr char kOwner[] = "owner";

at::Tensor describe(const MemoryOwner& owner) {
  std::string text = "ranks";
  for (const int rank : owner.group->ranks()) {
    text += str(' ', rank);
  }
  for (const auto& [name, count] : owner.parameters) {
    text += str("; ", name, ' ', count);
  }
  at::Tensor bytes =
      at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

} // namespace

training::ModelCore::Memory memory_of(
    const BucketHook* hook, const MemoryOwner& owner) {
  training::ModelCore::Memory memory;
  if (hook != nullptr) {
    memory = hook->memory();
  }
  if (!memory.empty()) {
    memory[kOwner] = describe(owner);
  }
  return memory;
}

void set_memory_of(
    BucketHook* hook,
    const MemoryOwner& owner,
    training::ModelCore::Memory memory) {
  const auto found = memory.extract(kOwner);
  if (hook == nullptr || found.empty()) {
    return;
  }
  if (!describe(owner).equal(found.mapped())) {
    log::info(
        "[data_parallel] the errors of compressed gradients are of other ranks "
        "or parameters: they begin anew");
    return;
  }
  hook->set_memory(memory);
}

} // namespace argosy::data_parallel
