#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <string_view>

namespace argosy::launch {

// Selects streams of workers, with torchrun's numbers: 0 none, 1 stdout, 2
// stderr, 3 both.
struct StreamChoice {
  int everyone = 0;
  std::map<int, int> by_local_rank; // exceptions from `everyone`

  bool out(int local_rank) const { return (of(local_rank) & 1) != 0; }
  bool err(int local_rank) const { return (of(local_rank) & 2) != 0; }
  bool any() const;

  bool operator==(const StreamChoice&) const = default;

 private:
  int of(int local_rank) const;
};

// Parses "3", or by local rank "0:1,1:2" (others: none). Throws
// InvalidArgument, naming `flag`.
StreamChoice parse_streams(std::string_view text, std::string_view flag);

// How log files are named.
enum class LogNames {
  Torchrun, // <run>/attempt_<n>/<local rank>/stdout.log and stderr.log
  Paddle,   // workerlog.<local rank>, serverlog.<i>
  Msrun,    // worker_<rank>.log, server_<i>.log
};

// Where one stream of a worker goes.
struct StreamPlan {
  bool console = true;  // alone: the worker inherits our stream
  std::string file;     // with console: both, through the launcher
  bool appends = false; // else the file begins anew

  bool operator==(const StreamPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const StreamPlan& plan);

// The folder of one attempt, <run>/attempt_<n>. Workers write flight records
// there.
std::string attempt_dir(std::string_view run_dir, int attempt);

// Whether the folder contains flight records.
bool has_flight_records(const std::string& dir);

// The folder of one worker, <run>/attempt_<n>/<name>.
std::string worker_log_dir(
    std::string_view run_dir, int attempt, std::string_view name);

// The prefix of a worker's lines on the console: `form` with ${role_name},
// ${local_rank} and ${rank} replaced; if empty, "[<role><local rank>]:".
std::string line_prefix(
    std::string_view form, std::string_view role, int local_rank, int rank);

// Creates <log_dir>/<run_id>_<random>; without log_dir, in the system's
// temporary folder. Throws SystemError.
std::string make_run_dir(const std::string& log_dir, const std::string& run_id);

// The folder of one run, made by make_run_dir(). The destructor removes it
// unless it is to be kept: without logs it has only error files, which nobody
// needs after a success.
class RunDir {
 public:
  RunDir(const std::string& log_dir, const std::string& run_id, bool keep);
  ~RunDir();
  RunDir(const RunDir&) = delete;
  RunDir& operator=(const RunDir&) = delete;

  const std::string& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::string path_;
  bool keep_;
};

} // namespace argosy::launch
