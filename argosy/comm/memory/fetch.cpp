#include "argosy/comm/memory/fetch.h"

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "argosy/comm/memory/layout.h"

namespace argosy::comm::memory {

namespace {

using Transfer = ssize_t (*)(
    pid_t,
    const iovec*,
    unsigned long,
    const iovec*,
    unsigned long,
    unsigned long);

// The kernel may move less than asked; the loop asks for the rest. On failure,
// errno is the kernel's: Peers::throw_unreachable() reads it.
bool transfer(
    Transfer call,
    pid_t process,
    void* here,
    std::uint64_t there,
    std::size_t bytes) {
  auto* at = static_cast<std::byte*>(here);
  while (bytes > 0) {
    const iovec local{at, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t moved = call(process, &local, 1, &remote, 1, 0);
    if (moved <= 0) {
      return false;
    }
    at += moved;
    there += static_cast<std::uint64_t>(moved);
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

} // namespace

bool fetch_from(
    pid_t process, void* to, std::uint64_t from, std::size_t bytes) {
  return transfer(::process_vm_readv, process, to, from, bytes);
}

bool store_to(
    pid_t process, std::uint64_t to, const void* from, std::size_t bytes) {
  return transfer(
      ::process_vm_writev, process, const_cast<void*>(from), to, bytes);
}

// Yama's ptrace_scope 1 allows access to descendants only. PR_SET_PTRACER also
// admits the descendants of the named process, so naming the parent, usually
// the launcher, admits all ranks that it started.
void let_siblings_fetch() {
  const pid_t parent = ::getppid();
  if (parent > 1) { // all are descendants of the first process
    ::prctl(PR_SET_PTRACER, parent, 0, 0, 0);
  }
}

// Reads a word whose value is known. In another PID namespace the number could
// be that of an unrelated process, whose memory would differ.
bool can_fetch(pid_t process, const Control& control) {
  std::uint64_t self = 0;
  return fetch_from(process, &self, control.self, sizeof(self)) &&
      self == control.self;
}

} // namespace argosy::comm::memory
