#include "argosy/launch/folder_events.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "argosy/common/error.h"

namespace argosy::launch {

FolderEvents::FolderEvents(const std::filesystem::path& folder)
    : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!events_ ||
      ::inotify_add_watch(
          events_.get(), folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    throw SystemError(with_errno(str("[flight.watch] ", folder.string())));
  }
}

std::vector<std::string> FolderEvents::take() {
  std::vector<std::string> names;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(events_.get(), buffer.data(), buffer.size());
    if (size <= 0) {
      return names;
    }
    for (ssize_t at = 0; at < size;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      if (event.len > 0) {
        names.emplace_back(buffer.data() + at + offsetof(inotify_event, name));
      }
      at += static_cast<ssize_t>(sizeof(event) + event.len);
    }
  }
}

} // namespace argosy::launch
