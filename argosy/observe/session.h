#pragma once

#include <filesystem>
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
  bool progress = true;           // rank 0 writes to standard error
  std::vector<std::string> shown; // gauges and counters in the progress line

  // Files; none when empty. Rank 0 writes them, but where the name of the JSON
  // file has "{rank}" in it, every rank writes its own.
  std::string json_lines;
  std::string tensor_board; // a folder
  std::string trace;        // of all ranks, by finish()
};

// Listens to the calling thread's rank while it lives. All members of the group
// must make it alike, and before the meter whose reports it is to show.
class Session {
 public:
  // Throws SystemError for files that cannot be made.
  explicit Session(
      Outputs outputs, const std::shared_ptr<Group>& group = nullptr);

  // Without finish() there is no trace.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Writes the trace, a collective, and stops to listen.
  void finish();

 private:
  void listen(std::shared_ptr<Sink> sink);
  void stop();

  const std::shared_ptr<Group> group_;
  const std::string trace_path_;
  std::shared_ptr<Observer> observer_;
  std::vector<std::shared_ptr<Sink>> sinks_;
  std::shared_ptr<ChromeTrace> trace_; // one of sinks_, if any
};

// "m.{rank}.jsonl" of rank 3 is "m.3.jsonl".
std::string with_rank(const std::string& path, int rank);

} // namespace argosy::observe
