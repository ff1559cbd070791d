#pragma once

#include <memory>
#include <string>
#include <vector>

namespace argosy {
class Group;
}

namespace argosy::observe {

class ChromeTrace;
class Observer;
class Sink;

struct Outputs {
  bool progress = true;           // rank 0 writes to stderr
  std::vector<std::string> shown; // gauges and counters in the progress line

  // Output files; empty: none. Rank 0 writes them. If the name of the JSON file
  // contains "{rank}", every rank writes its own.
  std::string json_lines;
  std::string tensor_board; // a folder
  std::string trace;        // of all ranks, written by finish()
};

// Adds sinks to the calling thread's rank while it is alive. All members of the
// group construct it alike, before the StepMeter whose reports it should show.
class Session {
 public:
  // Throws SystemError when a file cannot be created.
  explicit Session(
      Outputs outputs, const std::shared_ptr<Group>& group = nullptr);

  // Does not write a trace; only finish() does.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Writes the trace and removes the sinks. All members call it; blocks if
  // there is a trace.
  void finish();

 private:
  void listen(std::shared_ptr<Sink> sink);
  void stop();

  const std::shared_ptr<Group> group_;
  const std::string trace_path_;
  std::shared_ptr<Observer> observer_;
  std::vector<std::shared_ptr<Sink>> sinks_;
  std::shared_ptr<ChromeTrace> trace_; // one of sinks_, or null
};

// Returns "m.3.jsonl" for "m.{rank}.jsonl" and rank 3.
std::string with_rank(const std::string& path, int rank);

} // namespace argosy::observe
