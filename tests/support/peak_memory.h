#pragma once

#include <cstdint>
#include <cstdlib>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::testing {

// How much more memory than at its construction this process had at most since
// then: resident pages, as the kernel counts them.
class PeakMemory {
 public:
  PeakMemory() {
    write_whole("/proc/self/clear_refs", "5"); // the peak begins anew
    begin_ = kilobytes();
  }

  std::int64_t grown_bytes() const { return (kilobytes() - begin_) * 1024; }

 private:
  static void write_whole(const char* path, const char* text) {
    std::FILE* const file = std::fopen(path, "w");
    ARGOSY_CHECK(file != nullptr, "cannot open {}", path);
    std::fputs(text, file);
    std::fclose(file);
  }

  static std::int64_t kilobytes() {
    const auto status = read_file("/proc/self/status");
    const auto at = status->find("VmHWM:");
    ARGOSY_CHECK(at != std::string::npos, "no VmHWM in {}", *status);
    return std::atoll(status->c_str() + at + 6);
  }

  std::int64_t begin_ = 0;
};

} // namespace argosy::testing
