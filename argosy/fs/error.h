#pragma once

#include <string>
#include <string_view>

#include "argosy/common/error.h"

namespace argosy::fs {

// What kind of failure an FsError is, for callers that react.
enum class Failure {
  NotFound,  // the path or its folder does not exist
  Exists,    // something else has that name
  WrongType, // a file where a folder is needed, or a folder where a file is
  Denied,    // no permission, read-only, credentials refused
  NoSpace,   // disk, quota or file size limit is full
  Broken,    // fewer or other bytes than the file system promised
  Other,
};

// A file system refused or failed. The message has the operation, the URL or
// path, the reason (for servers the HTTP status and their text), and what to
// do. A wait that reaches its deadline throws TimeoutError instead.
class FsError : public SystemError {
 public:
  FsError(Failure failure, const std::string& message);

  Failure failure() const { return failure_; }

 private:
  Failure failure_;
};

// Throws the FsError for an errno value of an operation on a local path, with
// advice that fits the path.
[[noreturn]] void throw_errno(
    int error, std::string_view op, const std::string& path);

} // namespace argosy::fs
