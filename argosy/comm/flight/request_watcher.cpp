#include "argosy/comm/flight/request_watcher.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "argosy/comm/flight/record_files.h"
#include "argosy/common/error.h"

namespace argosy::comm::flight {

RequestWatcher::RequestWatcher(
    const std::filesystem::path& folder, std::function<void()> on_request)
    : on_request_(std::move(on_request)),
      events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      stop_(launch::make_pipe()) {
  if (!events_ ||
      ::inotify_add_watch(
          events_.get(), folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    throw SystemError(with_errno(str("[flight.watch] ", folder.string())));
  }
  thread_ = std::thread([this] { loop(); });
}

RequestWatcher::~RequestWatcher() {
  stop_.write.close();
  thread_.join();
}

bool RequestWatcher::read_events() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  bool requested = false;
  for (;;) {
    const ssize_t size = ::read(events_.get(), buffer.data(), buffer.size());
    if (size <= 0) {
      return requested;
    }
    for (ssize_t at = 0; at < size;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* name = buffer.data() + at + offsetof(inotify_event, name);
      requested = requested ||
          (event.len > 0 && std::string_view(name) == kRequestName);
      at += static_cast<ssize_t>(sizeof(event) + event.len);
    }
  }
}

void RequestWatcher::loop() {
  std::array<pollfd, 2> waits = {
      pollfd{events_.get(), POLLIN, 0}, pollfd{stop_.read.get(), POLLIN, 0}};
  for (;;) {
    ::poll(waits.data(), waits.size(), -1);
    if (waits[1].revents != 0) {
      return;
    }
    if (read_events()) {
      on_request_();
    }
  }
}

} // namespace argosy::comm::flight
