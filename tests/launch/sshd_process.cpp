#include "tests/launch/sshd_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "argosy/common/error.h"
#include "tests/launch/argosy_process.h"

namespace argosy::testing {

namespace {

void run_shell(const std::string& script) {
  if (std::system(script.c_str()) != 0) {
    throw SystemError(str("failed: ", script));
  }
}

std::string config(const std::string& dir, int port) {
  return str_format(
      "Port {}\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey "
      "{}/host\nAuthorizedKeysFile {}/user.pub\nStrictModes no\nUsePAM "
      "no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n",
      port,
      dir,
      dir);
}

pid_t spawn_shell(const std::string& script) {
  const char* words[] = {"sh", "-c", script.c_str(), nullptr};
  auto* const* arguments = const_cast<char* const*>(words);
  pid_t pid = -1;
  if (::posix_spawnp(&pid, "sh", nullptr, nullptr, arguments, environ) != 0) {
    throw SystemError("cannot start sshd");
  }
  return pid;
}

} // namespace

SshdProcess::SshdProcess() : folder_("argosy-sshd") {
  const std::string dir = folder_.path();
  for (const char* name : {"host", "user"}) {
    run_shell(str("ssh-keygen -q -t ed25519 -N '' -f ", dir, "/", name));
  }
  if (::geteuid() == 0) {
    ::mkdir("/run/sshd", 0755); // where sshd, as root, gives up its rights
  }
  write_file(folder_.path() / "config", config(dir, port_.port()));
  pid_ = spawn_shell(str_format(
      "exec setpriv --pdeathsig KILL -- /usr/sbin/sshd -D -e -f {}/config 2> "
      "{}/log",
      dir,
      dir));
  // It says so once per address, the second last.
  const bool listens = eventually([&] {
    const std::string text = log();
    return text.find("on 127.0.0.2") != std::string::npos &&
        text.find("on 127.0.0.3") != std::string::npos;
  });
  if (!listens) {
    throw SystemError("sshd does not listen: " + log());
  }
}

SshdProcess::~SshdProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

std::string SshdProcess::ssh_args() const {
  return str_format(
      "-p {} -i {}/user -o StrictHostKeyChecking=no -o "
      "UserKnownHostsFile=/dev/null -o LogLevel=ERROR -F none",
      port_.port(),
      folder_.path().string());
}

std::string SshdProcess::log() const {
  return read_file(folder_.path() / "log").value_or("");
}

} // namespace argosy::testing
