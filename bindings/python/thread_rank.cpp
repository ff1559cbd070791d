#include "bindings/python/thread_rank.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <memory>

#include "argosy/common/error.h"
#include "argosy/store/kv_store.h"
#include "argosy/store/mem_kv.h"
#include "argosy/world/init.h"
#include "argosy/world/thread_binding.h"
#include "argosy/world/world.h"

namespace argosy::python {

void join_thread_ranks(
    const std::string& name,
    int rank,
    int size,
    std::chrono::milliseconds timeout) {
  ARGOSY_CHECK(
      rank >= 0 && rank < size,
      "[python.thread_ranks] rank {} of {}, expected 0 <= rank < size",
      rank,
      size);
  ARGOSY_CHECK(
      current_world() == nullptr,
      "[python.thread_ranks] this thread is rank {} of a world already",
      current_world() ? current_world()->rank() : 0);
  ThreadBinding& binding = thread_binding();
  binding.launch = LaunchInfo{
      .source = "python",
      .rank = rank,
      .size = size,
      .local_rank = rank,
      .local_size = size};
  binding.store =
      c10::make_intrusive<store::KvStore>(store::MemKv::named(name));
  init_parallel_env({.timeout = timeout});
}

void abort_thread_ranks(const std::string& name, const std::string& reason) {
  // Ranks may still wait in the store, or already in collectives.
  store::MemKv::named(name)->abort(reason);
  if (const auto world = current_world()) {
    world->abort(reason);
  }
}

void leave_thread_ranks() {
  bind_world(nullptr);
  thread_binding() = {};
}

} // namespace argosy::python
