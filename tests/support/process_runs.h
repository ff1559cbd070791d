#pragma once

#include <cstdlib>
#include <functional>
#include <string>

#include "argosy/testing/gtest_ranks.h"

namespace argosy::testing {

// Several runs of process ranks in one test, one after the other. A rank runs
// the test anew up to its own run; it passes over those before.
class ProcessRuns {
 public:
  ProcessRuns() {
    if (const char* own = std::getenv(kVariable)) {
      own_ = std::atoi(own);
    }
  }

  // As run_process_ranks().
  void run(int num_ranks, const std::function<void(World&)>& body) {
    if (is_next_here()) {
      const Variable variable(last_);
      run_process_ranks(num_ranks, body);
    }
  }

  // The same for ranks that must fail.
  void run_failing(int num_ranks, const std::function<void(World&)>& body) {
    if (is_next_here()) {
      const Variable variable(last_);
      EXPECT_THROW(run_process_ranks(num_ranks, body), RankFailed);
    }
  }

 private:
  bool is_next_here() {
    ++last_;
    return own_ == 0 || own_ == last_;
  }

  static constexpr const char* kVariable = "ARGOSY_TEST_RUN";

  struct Variable {
    explicit Variable(int number) {
      ::setenv(kVariable, std::to_string(number).c_str(), 1);
    }
    ~Variable() { ::unsetenv(kVariable); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
  };

  int own_ = 0; // of this process, if it is a rank of a run
  int last_ = 0;
};

} // namespace argosy::testing
