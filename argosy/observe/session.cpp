#include "argosy/observe/session.h"

#include <utility>

#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight_record.h"
#include "argosy/comm/group.h"
#include "argosy/observe/chrome_trace.h"
#include "argosy/observe/flight_operations.h"
#include "argosy/observe/json_lines.h"
#include "argosy/observe/observer.h"
#include "argosy/observe/progress_line.h"
#include "argosy/observe/tensor_board.h"
#include "argosy/observe/trace_file.h"
#include "argosy/observe/world_observer.h"
#include "argosy/world/world.h"

namespace argosy::observe {

namespace {

constexpr std::string_view kRank = "{rank}";

// A trace sink that takes communication from the flight recorder.
std::shared_ptr<ChromeTrace> trace_of(World& world) {
  const auto box = comm::black_box_of(world);
  ChromeTrace::Options options;
  // The first record marks what happened before the session as seen.
  options.source = [box, fresh = NewOperations(box->record())]() mutable {
    return fresh.in(box->record());
  };
  return std::make_shared<ChromeTrace>(world.rank(), std::move(options));
}

} // namespace

std::string with_rank(const std::string& path, int rank) {
  std::string result = path;
  const auto place = result.find(kRank);
  if (place != std::string::npos) {
    result.replace(place, kRank.size(), std::to_string(rank));
  }
  return result;
}

Session::Session(Outputs outputs, const std::shared_ptr<Group>& group)
    : group_(group ? group : get_group(0)), trace_path_(outputs.trace) {
  const auto world = require_world("observe.session");
  const int rank = world->rank();
  const bool first = group_->rank() == 0;
  observer_ = observer_of(*world);
  if (outputs.progress && first) {
    ProgressLine::Options options;
    options.shown = std::move(outputs.shown);
    listen(std::make_shared<ProgressLine>(std::move(options)));
  }
  const std::string& lines = outputs.json_lines;
  // Without {rank} in its name, all ranks would write the same file.
  if (!lines.empty() && (first || with_rank(lines, rank) != lines)) {
    listen(std::make_shared<JsonLines>(with_rank(lines, rank), rank));
  }
  if (!outputs.tensor_board.empty() && first) {
    listen(std::make_shared<TensorBoard>(outputs.tensor_board));
  }
  // On every rank: finish() gathers the traces on the first.
  if (!trace_path_.empty()) {
    trace_ = trace_of(*world);
    listen(trace_);
  }
}

Session::~Session() {
  stop();
}

void Session::listen(std::shared_ptr<Sink> sink) {
  observer_->add(sink);
  sinks_.push_back(std::move(sink));
}

void Session::stop() {
  for (const auto& sink : sinks_) {
    observer_->remove(*sink);
  }
  sinks_.clear();
}

void Session::finish() {
  stop();
  // Only here, not in the destructor: writing is collective, and a destructor
  // may run on one rank alone, after an exception.
  if (const auto trace = std::exchange(trace_, nullptr)) {
    write_trace(trace_path_, trace->take(), group_);
  }
}

} // namespace argosy::observe
