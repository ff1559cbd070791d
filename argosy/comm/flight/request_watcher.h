#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "argosy/launch/fd.h"
#include "argosy/launch/folder_events.h"

namespace argosy::comm::flight {

// A thread that otherwise sleeps. It calls `on_request` whenever a process of
// this host calls request_records() for the folder or touches its file
// kRequestName, and `on_tick` at regular times.
class RequestWatcher {
 public:
  // Neither function may throw.
  struct Setup {
    std::filesystem::path folder; // empty: nobody asks
    std::function<void()> on_request;
    std::chrono::milliseconds tick{0}; // zero: no ticks
    std::function<void()> on_tick;
  };

  // Throws SystemError if the system cannot watch the folder.
  explicit RequestWatcher(Setup setup);
  ~RequestWatcher();
  RequestWatcher(const RequestWatcher&) = delete;
  RequestWatcher& operator=(const RequestWatcher&) = delete;

 private:
  void loop();
  bool is_requested();

  const Setup setup_;
  std::optional<launch::FolderEvents> events_;
  launch::Pipe stop_; // closing it ends the thread
  std::thread thread_;
};

} // namespace argosy::comm::flight
