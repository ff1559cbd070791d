#pragma once

#include <string>
#include <string_view>

namespace argosy {

// Where a function was called: the last argument of that function, with the
// default CallSite::here(). (std::source_location needs a newer clang.)
struct CallSite {
  const char* file = "";
  int line = 0;

  static constexpr CallSite here(
      const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  // Without the folder, which may differ between hosts: "train.cpp:12".
  std::string text() const {
    const std::string_view path = file;
    return std::string(path.substr(path.rfind('/') + 1)) + ":" +
        std::to_string(line);
  }
};

} // namespace argosy
