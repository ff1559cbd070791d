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

} // namespace

SshdProcess::SshdProcess() : folder_("argosy-sshd") {
  const std::string dir = folder_.path();
  for (const char* name : {"host", "user"}) {
    run_shell(str("ssh-keygen -q -t ed25519 -N '' -f ", dir, "/", name));
  }
  if (::geteuid() == 0) {
    ::mkdir("/run/sshd", 0755); // where sshd, as root, gives up its rights
  }
  write_file(
      folder_.path() / "config",
      str("Port ",
          port_.port(),
          "\nListenAddress 127.0.0.2\nListenAddress 127.0.0.3\nHostKey ",
          dir,
          "/host\nAuthorizedKeysFile ",
          dir,
          "/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
          "PermitRootLogin yes\nPasswordAuthentication no\n"));
  const std::string script =
      str("exec setpriv --pdeathsig KILL -- /usr/sbin/sshd -D -e -f ",
          dir,
          "/config 2> ",
          dir,
          "/log");
  const char* words[] = {"sh", "-c", script.c_str(), nullptr};
  if (::posix_spawnp(
          &pid_,
          "sh",
          nullptr,
          nullptr,
          const_cast<char* const*>(words),
          environ) != 0) {
    throw SystemError("cannot start sshd");
  }
  if (!eventually([&] {
        return log().find("listening on 127.0.0.3") != std::string::npos ||
            log().find("listening on 127.0.0.2") != std::string::npos;
      })) {
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
  return str(
      "-p ",
      port_.port(),
      " -i ",
      folder_.path().string(),
      "/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
      "-o BatchMode=yes -o LogLevel=ERROR -F none");
}

std::string SshdProcess::log() const {
  return read_file(folder_.path() / "log").value_or("");
}

} // namespace argosy::testing
