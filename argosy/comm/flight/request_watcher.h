#pragma once

#include <filesystem>
#include <functional>
#include <thread>

#include "argosy/launch/fd.h"

namespace argosy::comm::flight {

// Calls `on_request`, on a thread of its own that otherwise sleeps, whenever a
// process of this host calls request_records() for the folder or touches its
// file kRequestName.
class RequestWatcher {
 public:
  // Throws SystemError if the system cannot watch the folder.
  // `on_request` must not throw.
  RequestWatcher(
      const std::filesystem::path& folder, std::function<void()> on_request);
  ~RequestWatcher();
  RequestWatcher(const RequestWatcher&) = delete;
  RequestWatcher& operator=(const RequestWatcher&) = delete;

 private:
  void loop();
  bool read_events(); // whether the request is among them

  const std::function<void()> on_request_;
  launch::Fd events_;
  launch::Pipe stop_; // closing it ends the thread
  std::thread thread_;
};

} // namespace argosy::comm::flight
