#include "argosy/comm/flight/request_watcher.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "argosy/comm/flight/record_files.h"

namespace argosy::comm::flight {

RequestWatcher::RequestWatcher(Setup setup)
    : setup_(std::move(setup)), stop_(launch::make_pipe()) {
  if (!setup_.folder.empty()) {
    events_.emplace(setup_.folder);
  }
  thread_ = std::thread([this] { loop(); });
}

RequestWatcher::~RequestWatcher() {
  stop_.write.close();
  thread_.join();
}

bool RequestWatcher::is_requested() {
  return events_ && std::ranges::count(events_->take(), kRequestName) > 0;
}

void RequestWatcher::loop() {
  using Clock = std::chrono::steady_clock;
  // poll() ignores negative descriptors.
  std::array<pollfd, 2> waits = {
      pollfd{events_ ? events_->fd() : -1, POLLIN, 0},
      pollfd{stop_.read.get(), POLLIN, 0}};
  const bool ticks = setup_.tick.count() > 0;
  auto next_tick = Clock::now() + setup_.tick;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next_tick - Clock::now());
    const auto wait = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    ::poll(waits.data(), waits.size(), ticks ? wait : -1);
    if (waits[1].revents != 0) {
      return;
    }
    if (is_requested()) {
      setup_.on_request();
    }
    if (ticks && Clock::now() >= next_tick) {
      setup_.on_tick();
      next_tick = Clock::now() + setup_.tick;
    }
  }
}

} // namespace argosy::comm::flight
