#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "argosy/observe/sink.h"
#include "argosy/observe/trace.h"

namespace argosy::observe {

// Records the spans and operations of one rank in memory, for write_trace()
// (trace_file.h).
class ChromeTrace : public Sink {
 public:
  // Returns the operations that ended since the last call. Called from time to
  // time while spans arrive, and at the end.
  using Source = std::function<std::vector<TraceOperation>()>;

  struct Options {
    std::size_t max_events = 1'000'000; // about 80 bytes each
    Source source;
    std::chrono::milliseconds source_period{50};
  };

  explicit ChromeTrace(int rank) : ChromeTrace(rank, Options()) {}
  ChromeTrace(int rank, Options options);

  bool wants(Interest interest) const override {
    return interest == Interest::Spans;
  }
  void on_span(const SpanEvent& span) override;

  // Returns what was recorded. The observer must no longer call this sink.
  RankTrace take();

 private:
  void ask_source();
  bool has_room();
  int thread_number(std::uint64_t thread);

  const Options options_;
  RankTrace trace_;
  std::map<std::uint64_t, int> threads_;
  std::int64_t asked_ns_ = 0;
};

} // namespace argosy::observe
