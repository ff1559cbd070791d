#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "argosy/common/backoff.h"
#include "argosy/common/environment.h"
#include "argosy/common/process_status.h"
#include "argosy/common/text.h"
#include "argosy/compat/fs_backend.h"
#include "argosy/fs/file_system.h"
#include "argosy/launch/child.h"
#include "argosy/launch/fd.h"
#include "argosy/launch/shell.h"

namespace argosy::fleet::utils {

namespace {

constexpr int kJvmAborted = 134;
constexpr int kRunsAgain = 5;
constexpr int kRunsAgainOfTests = 1; // of tests and moves

struct CommandOutput {
  int code = 0;
  std::string out;
  std::string error;
};

// Reads both pipes until they close; false at the deadline.
bool read_pipes(
    const launch::Fd& out,
    const launch::Fd& error,
    CommandOutput& output,
    const Deadline& deadline) {
  std::array<pollfd, 2> entries = {
      {{out.get(), POLLIN, 0}, {error.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&output.out, &output.error};
  std::array<char, 65536> buffer{};
  while (entries[0].fd >= 0 || entries[1].fd >= 0) {
    if (deadline.expired()) {
      return false;
    }
    ::poll(
        entries.data(),
        entries.size(),
        static_cast<int>(
            deadline.remaining(std::chrono::milliseconds(500)).count()));
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].fd < 0 || entries[i].revents == 0) {
        continue;
      }
      const ssize_t count = ::read(entries[i].fd, buffer.data(), buffer.size());
      if (count <= 0) {
        entries[i].fd = -1; // poll() leaves it out
      } else {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      }
    }
  }
  return true;
}

// `before` is the failure of an earlier run, or "", for the message.
CommandOutput run_command(
    const std::vector<std::string>& argv,
    const std::string& before,
    const Deadline& deadline) {
  launch::Pipe out = launch::make_pipe();
  launch::Pipe error = launch::make_pipe();
  const launch::Fd input = launch::open_null();
  const pid_t pid = launch::start_child(
      {.argv = argv,
       .environment = Environment::of_process().variables(),
       .stdin_fd = input.get(),
       .stdout_fd = out.write.get(),
       .stderr_fd = error.write.get()});
  out.write.close();
  error.write.close();
  CommandOutput output;
  const bool is_done = read_pipes(out.read, error.read, output, deadline);
  if (!is_done) {
    ::kill(-pid, SIGKILL); // its process group: Java and what it started
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!is_done) {
    throw FSTimeOut(
        str("[compat.hadoop] ",
            launch::shell_join(argv),
            " did not end within ",
            deadline.limit_text(),
            before));
  }
  output.code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

// `hadoop fs`.
class HadoopBackend : public FsBackend {
 public:
  explicit HadoopBackend(HadoopCommand command)
      : command_(std::move(command)) {}

  Kind kind(const std::string& path) override {
    if (!test("-d", path)) {
      return test("-e", path) ? Kind::File : Kind::Nothing;
    }
    return Kind::Folder;
  }

  std::vector<fs::Entry> list(const std::string& path) override {
    std::vector<fs::Entry> entries;
    std::istringstream lines(run({"-ls", path}, kRunsAgain).out);
    for (std::string line; std::getline(lines, line);) {
      if (auto entry = parse_line(line)) {
        entries.push_back(std::move(*entry));
      }
    }
    return entries;
  }

  void make_dirs(const std::string& path) override {
    run({"-mkdir", "-p", path}, kRunsAgain);
  }
  void remove(const std::string& path) override {
    if (kind(path) != Kind::Nothing) {
      run({"-rm", "-r", path}, kRunsAgain);
    }
  }
  void rename(const std::string& from, const std::string& to) override {
    run({"-mv", from, to}, kRunsAgainOfTests);
  }
  void make_empty(const std::string& path) override {
    run({"-touchz", path}, kRunsAgain);
  }
  std::string read(const std::string& path) override {
    return run({"-cat", path}, kRunsAgain).out;
  }
  void upload(
      const std::string& local_path,
      const std::string& path,
      int at_once) override {
    // -f: a run before may have left a part.
    run({"-put", "-f", "-t", std::to_string(at_once), local_path, path},
        kRunsAgain);
  }
  void download(
      const std::string& path,
      const std::string& local_path,
      int at_once) override {
    run({"-get", "-f", "-t", std::to_string(at_once), path, local_path},
        kRunsAgain);
  }

 private:
  // "drwxr-xr-x - user group 0 2026-01-02 03:04 /path", as `-ls` prints it.
  static std::optional<fs::Entry> parse_line(const std::string& line) {
    std::istringstream words(line);
    std::string mode, replication, user, group, bytes, date, time, path;
    words >> mode >> replication >> user >> group >> bytes >> date >> time;
    std::getline(words >> std::ws, path); // may have spaces
    const auto size = parse_int(bytes);
    if (path.empty() || !size || (mode[0] != 'd' && mode[0] != '-')) {
      return std::nullopt; // "Found 3 items", warnings
    }
    return fs::Entry{
        .name = fs::base_name(path),
        .is_dir = mode[0] == 'd',
        .bytes = mode[0] == 'd' ? 0 : static_cast<std::uint64_t>(*size)};
  }

  std::vector<std::string> line(const std::vector<std::string>& words) const {
    std::vector<std::string> argv = {command_.program, "fs"};
    argv.insert(argv.end(), command_.flags.begin(), command_.flags.end());
    argv.insert(argv.end(), words.begin(), words.end());
    return argv;
  }

  // Runs until it ends with 0 or with `accept`, an answer too: 1 of `-test`.
  CommandOutput run(
      const std::vector<std::string>& words, int again, int accept = 0) const {
    const auto argv = line(words);
    const auto deadline = Deadline::after(command_.time_out);
    std::string before;
    for (int i = 0;; ++i) {
      CommandOutput output = run_command(argv, before, deadline);
      if (output.code == 0 || output.code == accept) {
        return output;
      }
      if (output.code == kJvmAborted) {
        throw FSShellCmdAborted(
            str("[compat.hadoop] ",
                launch::shell_join(argv),
                ": the Java machine aborted (code 134): ",
                trim(output.error)));
      }
      before =
          str("; it failed with code ", output.code, ": ", trim(output.error));
      // Two kinds of tries: `again` of them in a row, rows until the time-out.
      const bool in_row = i % (1 + again) < again;
      Backoff(in_row ? 3 * command_.sleep_inter : command_.sleep_inter)
          .pause(deadline);
    }
  }

  bool test(const std::string& flag, const std::string& path) const {
    return run({"-test", flag, path}, kRunsAgainOfTests, 1).code == 0;
  }

  const HadoopCommand command_;
};

} // namespace

std::unique_ptr<FsBackend> make_hadoop_backend(HadoopCommand command) {
  return std::make_unique<HadoopBackend>(std::move(command));
}

} // namespace argosy::fleet::utils
