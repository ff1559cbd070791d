#include "tests/store/etcd_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "argosy/common/error.h"
#include "argosy/store/etcd_kv.h"

namespace argosy::testing {

namespace {

pid_t spawn(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawnp(
      &pid, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0) {
    throw SystemError(str("cannot start ", command[0], ": error ", error));
  }
  return pid;
}

} // namespace

EtcdProcess::EtcdProcess() : folder_("argosy-etcd") {
  start();
  store::EtcdKv({endpoint()}, "ping")
      .ping(Deadline::after(std::chrono::seconds(20)));
}

EtcdProcess::~EtcdProcess() {
  stop();
}

void EtcdProcess::stop() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

void EtcdProcess::start() {
  const std::string client = str("http://", endpoint().text());
  const std::string peer = str("http://127.0.0.1:", peer_port_.port());
  pid_ = spawn({
      // Ends etcd when this test ends, however it ends.
      "setpriv",
      "--pdeathsig",
      "KILL",
      "--",
      "etcd",
      "--data-dir",
      (folder_.path() / "data").string(),
      "--listen-client-urls",
      client,
      "--advertise-client-urls",
      client,
      "--listen-peer-urls",
      peer,
      "--initial-advertise-peer-urls",
      peer,
      "--initial-cluster",
      str("default=", peer),
      // Short, so that restarts are, and leases of 1 s are allowed.
      "--heartbeat-interval",
      "20",
      "--election-timeout",
      "200",
      "--logger",
      "zap",
      "--log-level",
      "error",
      "--log-outputs",
      (folder_.path() / "etcd.log").string(),
  });
}

EtcdProcess& shared_etcd() {
  static EtcdProcess process;
  return process;
}

} // namespace argosy::testing
