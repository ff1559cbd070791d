#pragma once

// Times collectives; shared by our ranks and the MPI program, so that both
// measure alike. No torch, no Argosy.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace argosy::bench {

struct CommCase {
  std::string op;
  std::size_t bytes = 0; // of one rank's buffer, as in nccl-tests
};

inline double seconds_now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Returns the best time of a call, in seconds. All ranks call it; `align` is a
// barrier. The number of calls depends only on the size, so it is equal on all
// ranks.
inline double time_calls(
    std::size_t bytes,
    const std::function<void()>& call,
    const std::function<void()>& align,
    std::size_t most_calls = 2000) {
  const std::size_t budget = std::size_t{48} << 20;
  const int calls = static_cast<int>(std::clamp<std::size_t>(
      budget / std::max<std::size_t>(bytes, 1), 2, most_calls));
  for (int i = 0; i < 3; ++i) {
    call();
  }
  double best = 1e9;
  for (int batch = 0; batch < 5; ++batch) {
    align();
    const double began = seconds_now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    best = std::min(best, (seconds_now() - began) / calls);
  }
  return best;
}

// Parses "all_reduce:1024,all_reduce:65536,...".
inline std::vector<CommCase> parse_cases(const std::string& text) {
  std::vector<CommCase> cases;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t colon = word.find(':');
    cases.push_back(
        {word.substr(0, colon), std::stoull(word.substr(colon + 1))});
    begin = end + 1;
  }
  return cases;
}

inline void print_time(
    const std::string& who, const CommCase& c, double seconds) {
  std::printf(
      "time %s %s %zu %.9f\n", who.c_str(), c.op.c_str(), c.bytes, seconds);
  std::fflush(stdout);
}

} // namespace argosy::bench
