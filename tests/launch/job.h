#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "argosy/common/text.h"
#include "tests/launch/argosy_process.h"
#include "tests/support/free_port.h"

namespace argosy::testing {

using Words = std::vector<std::string>;

// A job at a place of its own; start() adds a node to it.
class Job {
 public:
  explicit Job(std::string endpoint = "") : endpoint_(std::move(endpoint)) {
    if (endpoint_.empty()) {
      endpoint_ = str("127.0.0.1:", free_port());
    }
  }

  ArgosyProcess& start(
      const Words& flags, const std::string& script, Words before = {}) {
    Words words = {"--rdzv-endpoint", endpoint_};
    words.insert(words.end(), flags.begin(), flags.end());
    return nodes_.emplace_back(
        run_sh(words, script), ProcessSetup{.before = std::move(before)});
  }

 private:
  std::string endpoint_;
  std::list<ArgosyProcess> nodes_;
};

inline constexpr const char* kSleep =
    "echo $$ > pid.$LOCAL_RANK; exec sleep 60";

} // namespace argosy::testing
