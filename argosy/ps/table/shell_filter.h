#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"
#include "argosy/common/file.h"

namespace argosy::ps {

// Text that goes through a shell command, by way of two temporary files: write
// all of it, run(), read the output. Throws SystemError if the command fails,
// with its status; TimeoutError, after killing it, if it does not end in time.
class ShellFilter {
 public:
  explicit ShellFilter(std::string command);
  ~ShellFilter();

  void write(std::string_view text);
  void run(Deadline deadline);

  // Path of the output, which lives as long as this object.
  std::string output() const;

 private:
  std::string command_;
  TempDir folder_;
  int input_ = -1;
};

} // namespace argosy::ps
