#include "tests/faults/soak_job.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::testing {

namespace {

constexpr char kToken[] = "ARGOSY_SOAK_TOKEN";

std::string environment_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/environ", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Condition>
bool holds_within(std::chrono::milliseconds limit, const Condition& condition) {
  const Deadline deadline = Deadline::after(limit);
  while (!condition()) {
    if (deadline.expired()) {
      return false;
    }
    ::poll(nullptr, 0, 5);
  }
  return true;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

} // namespace

SoakJob::SoakJob(const std::string& name)
    : token_(str(name, ".", ::getpid(), ".")) {}

void SoakJob::start(
    const std::vector<std::string>& words,
    std::map<std::string, std::string> env,
    std::vector<std::string> before) {
  env[kToken] = token_;
  nodes_.emplace_back(
      words, ProcessSetup{.env = std::move(env), .before = std::move(before)});
}

ArgosyProcess& SoakJob::node(std::size_t index) {
  return *std::next(nodes_.begin(), static_cast<std::ptrdiff_t>(index));
}

std::string SoakJob::await_end(std::chrono::seconds limit) {
  const auto all_ended = [&] {
    for (const ArgosyProcess& each : nodes_) {
      if (is_alive(each.pid())) {
        return false;
      }
    }
    return true;
  };
  if (!holds_within(limit, all_ended)) {
    std::ostringstream text;
    for (const pid_t pid : processes()) {
      std::ifstream stack(str("/proc/", pid, "/wchan"));
      std::ifstream command(str("/proc/", pid, "/comm"));
      std::string where;
      std::string name;
      std::getline(stack, where);
      std::getline(command, name);
      text << "process " << pid << " (" << name << ") is in " << where << "\n";
    }
    return text.str() + "after " + str(limit.count()) + " s\n";
  }
  for (ArgosyProcess& each : nodes_) {
    codes_.push_back(each.wait());
  }
  return "";
}

std::string SoakJob::err() const {
  std::string text;
  for (const ArgosyProcess& each : nodes_) {
    text += each.err();
  }
  return text;
}

std::vector<pid_t> SoakJob::processes() const {
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    const auto pid = parse_int(name);
    if (pid && is_alive(static_cast<pid_t>(*pid)) &&
        environment_of(name).find(str(kToken, "=", token_)) !=
            std::string::npos) {
      found.push_back(static_cast<pid_t>(*pid));
    }
  }
  return found;
}

std::string SoakJob::leftovers() const {
  std::string text;
  // The kernel may need a moment for what was killed.
  if (!holds_within(
          std::chrono::seconds(3), [&] { return processes().empty(); })) {
    for (const pid_t pid : processes()) {
      std::ifstream command(str("/proc/", pid, "/cmdline"));
      std::string words;
      std::getline(command, words, '\0');
      text += str("process ", pid, " ", words, "\n");
      ::kill(pid, SIGKILL);
    }
  }
  for (const std::string& name : names_in("/dev/shm")) {
    if (name.find("argosy") != std::string::npos) {
      text += "/dev/shm/" + name + "\n";
    }
  }
  // Folders of logs stay when the summary names them; what else is temporary
  // must go.
  for (const ArgosyProcess& each : nodes_) {
    for (const std::string& name : names_in(each.folder())) {
      if (name.starts_with("argosy-") || name.ends_with(".partial") ||
          name.ends_with(".sock")) {
        text += name + "\n";
      }
    }
  }
  return text;
}

} // namespace argosy::testing
