#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "argosy/common/deadline.h"
#include "argosy/fs/open.h"

namespace argosy::ps {

// A text file being written, compressed if `gzip`. It appears in commit().
class TextWriter {
 public:
  TextWriter(const fs::Location& file, bool gzip, Deadline deadline);
  ~TextWriter();

  void write(std::string_view text, Deadline deadline);
  void commit(Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The lines of a text file, of at most 16 MB each; compressed if `gzip`. Throws
// CheckpointError, with the file's URL, when it is damaged.
class LineReader {
 public:
  LineReader(const fs::Location& file, bool gzip, Deadline deadline);
  ~LineReader();

  // Returns false at the end. The line, without its end, stays until the next
  // call.
  bool next(std::string_view& line, Deadline deadline);

  long long number() const; // of the last line, from 1
  const std::string& url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::ps
