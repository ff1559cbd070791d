#pragma once

#include <memory>
#include <string>

#include "argosy/comm/backend/backend.h"
#include "argosy/comm/memory/shared_team.h"

namespace argosy::comm::memory {

// A backend for ranks that can see each other's memory: "inproc" when all are
// threads of one process, "shm" otherwise.
//
// Collectives move data in one of three ways, which all ranks choose alike:
//  - small: each rank puts its data into its window and enters the operation;
//    all then read what they need. One synchronisation.
//  - direct, when peers can access the buffers: they read and write in place.
//  - staged: the data goes through windows that stay in cache, in rounds; a
//    rank fills the next window before it waits for the others.
// All of them reduce in rank order, so the bits are the same.
class MemoryBackend final : public Backend {
 public:
  // All members must call it. Throws SystemError, on all of them, when one
  // cannot map the memory of another.
  MemoryBackend(
      std::string group_name,
      int rank,
      int size,
      const GatherStrings& gather_strings,
      const MemoryOptions& options = {});

  std::string name() const override;
  void abort(const std::string& reason) override;

  // reductions.cpp
  void all_reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override;
  void reduce(
      const void* in,
      void* out,
      std::size_t count,
      Reduction reduction,
      int root,
      Deadline deadline) override;
  void reduce_scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      Reduction reduction,
      Deadline deadline) override;

  // copies.cpp
  void barrier(Deadline deadline) override;
  void broadcast(
      void* data,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override;
  void all_gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      Deadline deadline) override;
  void all_to_all(
      const Blocks& in,
      const Blocks& out,
      DType dtype,
      Deadline deadline) override;
  void gather(
      const void* in,
      const Blocks& out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override;
  void scatter(
      const Blocks& in,
      void* out,
      std::size_t count,
      DType dtype,
      int root,
      Deadline deadline) override;

  void send(
      const void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override;
  void receive(
      void* data,
      std::size_t count,
      DType dtype,
      int peer,
      Deadline deadline) override;
  int await_any_message(Deadline deadline) override;
  std::shared_ptr<std::byte> symmetric_memory(
      std::size_t bytes, Deadline deadline) override;

 private:
  const SharedTeam shared_;
};

} // namespace argosy::comm::memory
