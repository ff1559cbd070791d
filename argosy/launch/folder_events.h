#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "argosy/launch/fd.h"

namespace argosy::launch {

// Hears of files that processes of this host write to a folder (inotify).
class FolderEvents {
 public:
  // Throws SystemError if the system cannot watch the folder.
  explicit FolderEvents(const std::filesystem::path& folder);

  int fd() const { return events_.get(); } // readable when there are events

  // The names of the files written since the last call. Does not block.
  std::vector<std::string> take();

 private:
  Fd events_;
};

} // namespace argosy::launch
