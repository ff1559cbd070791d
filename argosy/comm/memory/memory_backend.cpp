#include "argosy/comm/memory/memory_backend.h"

#include <utility>

#include "argosy/comm/memory/peers.h"
#include "argosy/comm/memory/pipes.h"
#include "argosy/comm/memory/team.h"

namespace argosy::comm::memory {

MemoryBackend::MemoryBackend(
    std::string group_name,
    int rank,
    int size,
    const GatherStrings& gather_strings,
    const MemoryOptions& options)
    : shared_(std::move(group_name), rank, size, gather_strings, options) {}

std::string MemoryBackend::name() const {
  return shared_.peers().one_address_space() ? "inproc" : "shm";
}

// The collectives are in reductions.cpp and copies.cpp.
void MemoryBackend::abort(const std::string& reason) {
  shared_.peers().abort(reason);
}

void MemoryBackend::send(
    const void* data,
    std::size_t count,
    DType dtype,
    int peer,
    Deadline deadline) {
  shared_.pipes().send(data, count, dtype, peer, deadline);
}

void MemoryBackend::receive(
    void* data, std::size_t count, DType dtype, int peer, Deadline deadline) {
  shared_.pipes().receive(data, count, dtype, peer, deadline);
}

int MemoryBackend::await_any_message(Deadline deadline) {
  return shared_.pipes().await_any(deadline);
}

std::shared_ptr<std::byte> MemoryBackend::symmetric_memory(
    std::size_t bytes, Deadline deadline) {
  Team& team = shared_.team();
  return team.segments().allocate(team, *this, bytes, deadline);
}

} // namespace argosy::comm::memory
