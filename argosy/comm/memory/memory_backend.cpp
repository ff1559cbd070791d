#include "argosy/comm/memory/memory_backend.h"

#include <utility>

#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/team.h"
#include "argosy/common/error.h"

namespace argosy::comm::memory {

namespace {

std::vector<std::size_t> counts_of(const Blocks& blocks) {
  std::vector<std::size_t> counts;
  for (const Block& block : blocks) {
    counts.push_back(block.count);
  }
  return counts;
}

class MemoryBackend final : public Backend {
 public:
  MemoryBackend(
      std::string group_name,
      int rank,
      int size,
      const GatherTexts& gather_texts)
      : shared_(std::move(group_name), rank, size, gather_texts) {}

  std::string name() const override {
    return team().one_address_space() ? "inproc" : "shm";
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
    const PackedBlocks packed(out, size_of(dtype), PackedBlocks::Use::Output);
    memory::all_gather(team(), in, packed.data(), count, dtype, deadline);
    packed.put_back();
  }

  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override {
    const PackedBlocks packed(
        in, size_of(reduction.dtype), PackedBlocks::Use::Input);
    memory::reduce_scatter(
        team(), packed.data(), out, count, reduction, deadline);
  }

  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override {
    const PackedBlocks from(in, size_of(dtype), PackedBlocks::Use::Input);
    const PackedBlocks to(out, size_of(dtype), PackedBlocks::Use::Output);
    memory::all_to_all(
        team(),
        from.data(),
        counts_of(in),
        to.data(),
        counts_of(out),
        dtype,
        deadline);
    to.put_back();
  }

  void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    const PackedBlocks packed(out, size_of(dtype), PackedBlocks::Use::Output);
    memory::gather(team(), in, packed.data(), count, dtype, root, deadline);
    packed.put_back();
  }

  void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override {
    const PackedBlocks packed(in, size_of(dtype), PackedBlocks::Use::Input);
    memory::scatter(team(), packed.data(), out, count, dtype, root, deadline);
  }

  void send(
      const void* /*data*/,
      std::size_t /*count*/,
      DType /*dtype*/,
      int /*peer*/,
      Deadline /*deadline*/) override {
    throw Error("[comm.send] not yet in shared memory");
  }

  void receive(
      void* /*data*/,
      std::size_t /*count*/,
      DType /*dtype*/,
      int /*peer*/,
      Deadline /*deadline*/) override {
    throw Error("[comm.recv] not yet in shared memory");
  }

  int await_any_message(Deadline /*deadline*/) override {
    throw Error("[comm.recv] not yet in shared memory");
  }

  void abort(const std::string& reason) override { team().abort(reason); }

 private:
  Team& team() const { return shared_.team(); }

  SharedTeam shared_;
};

} // namespace

std::unique_ptr<Backend> make_memory_backend(
    std::string group_name,
    int rank,
    int size,
    const GatherTexts& gather_texts) {
  return std::make_unique<MemoryBackend>(
      std::move(group_name), rank, size, gather_texts);
}

} // namespace argosy::comm::memory
