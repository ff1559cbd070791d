#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "argosy/common/file.h"

namespace argosy::testing {

struct ProcessSetup {
  std::map<std::string, std::string> env{}; // on top of a small fixed one
  std::string input{};                      // its standard input
  std::vector<std::string> before{};        // words before the command
};

// The real `argosy` command, run as a process with its output in files.
class ArgosyProcess {
 public:
  explicit ArgosyProcess(
      const std::vector<std::string>& words, const ProcessSetup& setup = {});
  // Kills it if it still runs.
  ~ArgosyProcess();

  pid_t pid() const { return pid_; }
  void send(int signal);

  // Waits for its end and returns its exit code, as a shell sees it. A test
  // failure, with the output, when that takes too long.
  int wait();

  std::string out() const;
  std::string err() const;

  // A scratch folder, in which it runs.
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TempDir folder_;
  pid_t pid_ = -1;
  int code_ = -1;
};

// `run <flags> sh -c <script>`, for ArgosyProcess.
std::vector<std::string> run_sh(
    const std::vector<std::string>& flags, const std::string& script);

// The lines of `text` that are not empty, sorted: ranks write in any order.
std::vector<std::string> sorted_lines(const std::string& text);

// Polls until `condition` holds; false after 40 s.
bool eventually(const std::function<bool()>& condition);

// Whether the process exists and is no zombie.
bool is_alive(pid_t pid);

// The numbers in the files of `folder` whose names start with `prefix`.
std::vector<pid_t> read_pids(
    const std::filesystem::path& folder, const std::string& prefix = "pid.");

// Polls until so many such files are complete.
std::vector<pid_t> await_pids(
    const std::filesystem::path& folder,
    std::size_t count,
    const std::string& prefix = "pid.");

// How many of them are alive after at most `milliseconds`.
int count_alive(const std::vector<pid_t>& pids, int milliseconds);

} // namespace argosy::testing
