#pragma once

#include <string>
#include <utility>
#include <vector>

#include "argosy/common/error.h"

namespace argosy::fleet {

// What is wrong with a strategy. All of it is reported at once, so that nobody
// mends a file error by error.
class Problems {
 public:
  // `where` names the source of the strategy, usually a file; may be empty.
  explicit Problems(std::string where) : where_(std::move(where)) {}

  void add(std::string problem) { all_.push_back(std::move(problem)); }
  void add(const InvalidArgument& error); // what it says, without the rank

  template <typename... Args>
  void require(bool holds, std::string_view otherwise, const Args&... args) {
    if (!holds) {
      add(str_format(otherwise, args...));
    }
  }

  // Throws InvalidArgument with all problems, one a line if there are several.
  // Does nothing if there are none.
  void raise() const;

 private:
  std::string where_;
  std::vector<std::string> all_;
};

} // namespace argosy::fleet
