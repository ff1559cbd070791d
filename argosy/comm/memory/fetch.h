#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace argosy::comm::memory {

struct Control;
struct Region;

// Copies memory of another process into ours in one step, through the kernel
// (process_vm_readv). Returns false if the kernel refuses: the process is gone,
// or this one may not read its memory.
bool fetch_from(pid_t process, void* to, std::uint64_t from, std::size_t bytes);

// Copies memory of ours into another process (process_vm_writev).
bool store_to(
    pid_t process, std::uint64_t to, const void* from, std::size_t bytes);

// Allows both to processes with the same parent, for kernels (Yama) that ask
// each process for permission.
void let_siblings_fetch();

// Whether fetch_from() works for the owner of a region that both processes map.
bool can_fetch(pid_t process, const Control& control);

// Prepares a region for is_fetch_faster() of its peers.
void fill_for_trials(Region& region);

// Whether the kernel copies the owner's memory to us in less time than it takes
// to copy it to a window of the owner and from there. Of either way nothing is
// known beforehand: it depends on the kernel, which looks up page by page, and
// on how fast cores see each other's caches.
bool is_fetch_faster(pid_t process, const Region& region);

} // namespace argosy::comm::memory
