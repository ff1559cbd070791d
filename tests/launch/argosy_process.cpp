#include "tests/launch/argosy_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/process_status.h"
#include "argosy/common/text.h"

namespace argosy::testing {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) {
    result.push_back(const_cast<char*>(text.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_of(
    const ProcessSetup& setup, const std::string& folder) {
  std::map<std::string, std::string> variables = setup.env;
  variables.emplace("TMPDIR", folder); // what is left there goes with it
  variables.emplace("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
  variables.emplace("OMP_NUM_THREADS", "1");
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) {
    if (!value.empty()) {
      entries.push_back(str(name, "=", value));
    }
  }
  return entries;
}

} // namespace

ArgosyProcess::ArgosyProcess(
    const std::vector<std::string>& words, const ProcessSetup& setup) {
  write_file(folder() / "in", setup.input);
  std::vector<std::string> command = setup.before;
  command.push_back(ARGOSY_COMMAND);
  command.insert(command.end(), words.begin(), words.end());
  const auto environment = environment_of(setup, folder());
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  const std::string in = folder() / "in";
  const std::string out = folder() / "out";
  const std::string err = folder() / "err";
  ::posix_spawn_file_actions_addopen(&files, 0, in.c_str(), O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 1, out.c_str(), flags, 0600);
  ::posix_spawn_file_actions_addopen(&files, 2, err.c_str(), flags, 0600);
  ::posix_spawn_file_actions_addchdir_np(&files, folder().c_str());
  // A shell lets its background jobs, such as this test, ignore these.
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGINT);
  ::sigaddset(&ending, SIGQUIT);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &ending);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawnp(
      &pid_,
      command[0].c_str(),
      &files,
      &attributes,
      pointers(command).data(),
      pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw SystemError(str("cannot start ", command[0], ": error ", error));
  }
}

ArgosyProcess::~ArgosyProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void ArgosyProcess::send(int signal) {
  ::kill(pid_, signal);
}

int ArgosyProcess::wait() {
  const bool ended = pid_ < 0 || eventually([&] {
                       int status = 0;
                       if (::waitpid(pid_, &status, WNOHANG) != pid_) {
                         return false;
                       }
                       code_ = ProcessStatus::from_wait(status).shell_code();
                       pid_ = -1;
                       return true;
                     });
  EXPECT_TRUE(ended) << "it hangs; its output:\n" << out() << err();
  return code_;
}

std::string ArgosyProcess::out() const {
  return read_file(folder() / "out").value_or("");
}

std::string ArgosyProcess::err() const {
  return read_file(folder() / "err").value_or("");
}

std::vector<std::string> run_sh(
    const std::vector<std::string>& flags, const std::string& script) {
  std::vector<std::string> words = {"run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"sh", "-c", script});
  return words;
}

std::vector<std::string> sorted_lines(const std::string& text) {
  auto lines = split(text, '\n');
  std::erase(lines, "");
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool eventually(const std::function<bool()>& condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(40));
  while (!condition()) {
    if (deadline.expired()) {
      return false;
    }
    ::poll(nullptr, 0, 2);
  }
  return true;
}

bool is_alive(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && line.substr(name_end + 2, 1) != "Z";
}

std::vector<pid_t> read_pids(
    const std::filesystem::path& folder, const std::string& prefix) {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(prefix)) {
      const std::string text = read_file(entry.path()).value_or("");
      if (text.ends_with('\n')) {
        pids.push_back(std::stoi(text));
      }
    }
  }
  return pids;
}

std::vector<pid_t> await_pids(
    const std::filesystem::path& folder,
    std::size_t count,
    const std::string& prefix) {
  eventually([&] { return read_pids(folder, prefix).size() >= count; });
  const auto pids = read_pids(folder, prefix);
  EXPECT_EQ(pids.size(), count);
  return pids;
}

int count_alive(const std::vector<pid_t>& pids, int milliseconds) {
  const Deadline deadline =
      Deadline::after(std::chrono::milliseconds(milliseconds));
  while (true) {
    const auto alive = std::count_if(pids.begin(), pids.end(), is_alive);
    if (alive == 0 || deadline.expired()) {
      return static_cast<int>(alive);
    }
    ::poll(nullptr, 0, 2);
  }
}

} // namespace argosy::testing
