#include "bench/rpc_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "argosy/common/backoff.h"
#include "argosy/common/error.h"

namespace argosy::bench {

namespace {

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw SystemError(with_errno("[bench] pipe"));
  }
  return ends;
}

} // namespace

LineProcess::LineProcess(const std::vector<std::string>& command) {
  const auto input = make_pipe();
  const auto output = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  const int failed =
      ::posix_spawnp(&pid_, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  in_ = input[1];
  out_ = output[0];
  if (failed != 0) {
    pid_ = -1;
    throw SystemError(str("[bench] cannot start ", command[0]));
  }
}

LineProcess::~LineProcess() {
  ::close(in_);
  ::close(out_);
  if (pid_ < 0) {
    return;
  }
  const auto limit = Deadline::after(std::chrono::seconds(10));
  Backoff backoff;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (limit.expired()) {
      ::kill(pid_, SIGKILL);
    }
    backoff.pause(Deadline::after(std::chrono::seconds(1)));
  }
}

std::string LineProcess::read_line() {
  std::string line;
  char byte = 0;
  while (::read(out_, &byte, 1) == 1) {
    if (byte == '\n') {
      return line;
    }
    line += byte;
  }
  throw SystemError("[bench] a contestant has ended");
}

double LineProcess::ask(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(in_, text.data(), text.size()) !=
      static_cast<ssize_t>(text.size())) {
    throw SystemError(with_errno("[bench] a contestant does not listen"));
  }
  return std::stod(read_line());
}

} // namespace argosy::bench
