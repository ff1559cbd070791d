#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/common/thread_context.h"

namespace argosy::torch_hooks {

// What an op does with its arguments, as its schema says.
struct OpInfo {
  enum class ArgKind : std::uint8_t {
    Tensor,  // or None
    Tensors, // a list, in which some may be None
    Key,     // integers and the like, on which a decision may depend
    Other,
  };
  struct Arg {
    ArgKind kind = ArgKind::Other;
    bool is_written = false;
    bool is_out = false; // written without being read
    std::string name;
  };
  struct Return {
    ArgKind kind = ArgKind::Other;
    int written = -1;     // the argument that it is, or -1
    bool is_view = false; // of an argument
  };

  std::string name; // "aten::add.Tensor"
  std::vector<Arg> args;
  std::vector<Return> returns;
  bool is_random = false;
  bool changes_shape = false; // of the argument that it writes
  bool writes = false;
  // A formula of backward. LibTorch gives those what forward has saved, and
  // some kernels take it for granted that it is contiguous (softmax's).
  bool is_backward = false;
  bool makes_views = false;
};

OpInfo read_schema(const c10::OperatorHandle& op);

// What `read` returns for an op: called once for each, and kept for as long as
// the process lives. One `read` for each type. Thread-safe.
template <typename T>
const T& known_by_op(
    const c10::OperatorHandle& op, T (*read)(const c10::OperatorHandle&)) {
  // Only a shortcut to what all threads share: the last op of each slot. Every
  // op on a DTensor comes here, so it costs a multiplication and a comparison.
  struct Recent {
    struct Slot {
      const c10::FunctionSchema* schema = nullptr;
      const T* known = nullptr;
    };
    std::array<Slot, 256> slots;
  };
  const c10::FunctionSchema* const schema = &op.schema();
  const std::uint64_t hash =
      reinterpret_cast<std::uintptr_t>(schema) * 0x9e3779b97f4a7c15u;
  auto& slot = of_thread<Recent>().slots[hash >> 56];
  if (slot.schema != schema) {
    static std::mutex mutex;
    static std::map<const void*, std::unique_ptr<const T>> all;
    const std::lock_guard lock(mutex);
    auto& shared = all[schema];
    if (!shared) {
      shared = std::make_unique<const T>(read(op));
    }
    slot = {schema, shared.get()};
  }
  return *slot.known;
}

// The same object for the same op, for as long as the process lives.
const OpInfo& op_info(const c10::OperatorHandle& op);

} // namespace argosy::torch_hooks
