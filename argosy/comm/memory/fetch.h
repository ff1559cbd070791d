#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace argosy::comm::memory {

struct Control;

// Copies memory of another process into ours in one step, through the kernel
// (process_vm_readv). False when the kernel refuses: the process is gone, or
// this one has no right to read it.
bool fetch_from(pid_t process, void* to, std::uint64_t from, std::size_t bytes);

// The other way (process_vm_writev).
bool store_to(
    pid_t process, std::uint64_t to, const void* from, std::size_t bytes);

// Lets processes with the same parent do so, where the kernel (Yama) would have
// each process allow it.
void let_siblings_fetch();

// Whether that works for the owner of a region, which both processes map.
bool can_fetch(pid_t process, const Control& control);

} // namespace argosy::comm::memory
