#include "argosy/comm/memory/memory_backend.h"

#include <utility>

#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/peers.h"
#include "argosy/comm/memory/pipes.h"
#include "argosy/comm/memory/team.h"

namespace argosy::comm::memory {

namespace {

class MemoryBackend final : public Backend {
 public:
  MemoryBackend(
      std::string group_name,
      int rank,
      int size,
      const GatherStrings& gather_strings,
      const MemoryOptions& options)
      : shared_(std::move(group_name), rank, size, gather_strings, options) {}

  std::string name() const override {
    return shared_.peers().one_address_space() ? "inproc" : "shm";
  }

  void barrier(Deadline deadline) override {
    memory::barrier(team(), deadline);
  }

  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    memory::all_reduce(team(), in, out, count, reduction, deadline);
  }

  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override {
    memory::reduce(team(), in, out, count, reduction, root, deadline);
  }

  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    memory::broadcast(team(), data, count, dtype, root, deadline);
  }

  void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) override {
    memory::all_gather(team(), in, out, count, dtype, deadline);
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    memory::reduce_scatter(team(), in, out, count, reduction, deadline);
  }

  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    memory::all_to_all(team(), in, out, dtype, deadline);
  }

  void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    memory::gather(team(), in, out, count, dtype, root, deadline);
  }

  void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    memory::scatter(team(), in, out, count, dtype, root, deadline);
  }

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    shared_.pipes().send(data, count, dtype, peer, deadline);
  }

  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override {
    shared_.pipes().receive(data, count, dtype, peer, deadline);
  }

  int await_any_message(Deadline deadline) override {
    return shared_.pipes().await_any(deadline);
  }

  std::shared_ptr<std::byte> symmetric_memory(
      std::size_t bytes, Deadline deadline) override {
    return team().segments().allocate(team(), bytes, deadline);
  }

  void abort(const std::string& reason) override {
    shared_.peers().abort(reason);
  }

 private:
  Team& team() const { return shared_.team(); }

  SharedTeam shared_;
};

} // namespace

std::unique_ptr<Backend> make_memory_backend(
    std::string group_name,
    int rank,
    int size,
    const GatherStrings& gather_strings,
    const MemoryOptions& options) {
  return std::make_unique<MemoryBackend>(
      std::move(group_name), rank, size, gather_strings, options);
}

} // namespace argosy::comm::memory
