#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

// What all contestants of bench/rpc.cpp measure in the same way.
namespace argosy::bench {

// The microseconds of each call of `f`, sorted.
template <typename F>
std::vector<double> sorted_times(int count, const F& f) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto began = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::micro> passed =
        std::chrono::steady_clock::now() - began;
    times.push_back(passed.count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

inline double quantile(const std::vector<double>& sorted, double which) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(which * last)];
}

template <typename F>
double median_us(int count, const F& f) {
  return quantile(sorted_times(count, f), 0.5);
}

constexpr int kInFlight = 256;
constexpr std::chrono::milliseconds kSlowCall(5);
constexpr int kSlowEvery = 100; // one call in a hundred is slow

// The 99th percentile of fast calls; a slow one is started every kSlowEvery
// calls, if at all.
template <typename Fast, typename StartSlow>
double p99_us(int count, bool slow, const Fast& fast, const StartSlow& start) {
  int calls = 0;
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    if (slow && ++calls % kSlowEvery == 0) {
      start();
    }
    const auto one = sorted_times(1, fast);
    times.push_back(one[0]);
  }
  std::sort(times.begin(), times.end());
  return quantile(times, 0.99);
}

} // namespace argosy::bench
