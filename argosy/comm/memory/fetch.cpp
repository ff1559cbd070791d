#include "argosy/comm/memory/fetch.h"

#include <sys/uio.h>

#include "argosy/comm/memory/layout.h"

namespace argosy::comm::memory {

bool fetch_from(
    pid_t process, void* to, std::uint64_t from, std::size_t bytes) {
  auto* place = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const iovec local{place, bytes};
    const iovec remote{reinterpret_cast<void*>(from), bytes};
    const ssize_t got = ::process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (got <= 0) {
      return false;
    }
    place += got;
    from += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool can_fetch(pid_t process, const Control& control) {
  std::uint64_t self = 0;
  const std::uint64_t address = control.self + offsetof(Control, self);
  return fetch_from(process, &self, address, sizeof(self)) &&
      self == control.self;
}

} // namespace argosy::comm::memory
