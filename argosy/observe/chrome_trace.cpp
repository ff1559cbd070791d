#include "argosy/observe/chrome_trace.h"

#include <utility>

#include "argosy/common/net.h"

namespace argosy::observe {

ChromeTrace::ChromeTrace(int rank, Options options)
    : options_(std::move(options)) {
  trace_.rank = rank;
  trace_.host = host_name();
}

// Drops new events rather than old ones and counts them, so that a long run
// cannot exhaust memory.
bool ChromeTrace::has_room() {
  if (trace_.spans.size() + trace_.operations.size() < options_.max_events) {
    return true;
  }
  ++trace_.dropped;
  return false;
}

int ChromeTrace::thread_number(std::uint64_t thread) {
  const int next = static_cast<int>(threads_.size());
  // Small numbers instead of hashes, since each becomes a lane.
  return threads_.emplace(thread, next).first->second;
}

void ChromeTrace::on_span(const SpanEvent& span) {
  if (has_room()) {
    trace_.spans.push_back(
        {.name = std::string(span.name),
         .activity = span.activity,
         .thread = thread_number(span.thread),
         .begin_ns = span.begin_ns,
         .end_ns = span.end_ns});
  }
  // The source keeps only the latest operations, so it is asked regularly.
  const std::chrono::nanoseconds passed(span.end_ns - asked_ns_);
  if (passed >= options_.source_period) {
    asked_ns_ = span.end_ns;
    ask_source();
  }
}

void ChromeTrace::ask_source() {
  if (!options_.source) {
    return;
  }
  for (TraceOperation& operation : options_.source()) {
    if (has_room()) {
      trace_.operations.push_back(std::move(operation));
    }
  }
}

RankTrace ChromeTrace::take() {
  ask_source();
  RankTrace empty{.rank = trace_.rank, .host = trace_.host};
  return std::exchange(trace_, std::move(empty));
}

} // namespace argosy::observe
