#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "argosy/data/slots/sample_format.h"

namespace argosy::data {

// Counts samples that could not be read. The first ones are logged, with file
// and place; one more than `limit` is an error. Thread-safe.
class BadLines {
 public:
  // -1: no limit.
  explicit BadLines(std::int64_t limit = 0) : limit_(limit) {}

  // Throws InvalidArgument when there are more than the limit.
  void add(const std::string& file, const SampleFault& fault);

  std::int64_t count() const;
  // The first ones, as they were logged.
  std::vector<std::string> samples() const;

 private:
  const std::int64_t limit_;
  mutable std::mutex mutex_;
  std::int64_t count_ = 0;           // guarded by mutex_
  std::vector<std::string> samples_; // guarded by mutex_
};

} // namespace argosy::data
