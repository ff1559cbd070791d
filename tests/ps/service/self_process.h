#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

// Processes that run a disabled case of the test that starts them.
namespace argosy::testing {

inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Starts one with variables "NAME=value" in front of the own ones.
inline pid_t start_self(
    std::vector<std::string> variables, const std::string& cases) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  std::vector<char*> env;
  for (std::string& text : variables) {
    env.push_back(text.data());
  }
  env.push_back(nullptr);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=" + cases;
  std::string disabled = "--gtest_also_run_disabled_tests";
  std::string brief = "--gtest_brief=1";
  char* arguments[] = {
      program.data(), filter.data(), disabled.data(), brief.data(), nullptr};
  pid_t pid = -1;
  EXPECT_EQ(
      ::posix_spawn(
          &pid, program.c_str(), nullptr, nullptr, arguments, env.data()),
      0);
  return pid;
}

inline void kill_hard(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

} // namespace argosy::testing
