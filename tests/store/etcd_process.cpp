#include "tests/store/etcd_process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/store/etcd_client.h"
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

EtcdMember::EtcdMember(std::string name, store::TlsFiles tls)
    : name_(std::move(name)), tls_(std::move(tls)), folder_("argosy-etcd") {}

EtcdMember::~EtcdMember() {
  stop();
}

std::string EtcdMember::peer_url() const {
  return str("http://127.0.0.1:", peer_port_.port());
}

void EtcdMember::stop() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

void EtcdMember::freeze(bool frozen) {
  ::kill(pid_, frozen ? SIGSTOP : SIGCONT);
}

void EtcdMember::start(const std::string& cluster) {
  const std::string client =
      str(tls_.on() ? "https://" : "http://", endpoint().text());
  std::vector<std::string> command = {
      // Ends etcd when this test ends, however it ends.
      "setpriv",
      "--pdeathsig",
      "KILL",
      "--",
      "etcd",
      "--name",
      name_,
      "--data-dir",
      (folder_.path() / "data").string(),
      "--listen-client-urls",
      client,
      "--advertise-client-urls",
      client,
      "--listen-peer-urls",
      peer_url(),
      "--initial-advertise-peer-urls",
      peer_url(),
      "--initial-cluster",
      cluster,
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
  };
  if (tls_.on()) {
    command.insert(
        command.end(),
        {"--cert-file",
         tls_.certificate,
         "--key-file",
         tls_.key,
         "--client-cert-auth",
         "--trusted-ca-file",
         tls_.ca});
  }
  pid_ = spawn(command);
}

EtcdCluster::EtcdCluster(int size) {
  std::vector<std::string> entries;
  for (int i = 0; i < size; ++i) {
    members_.push_back(std::make_unique<EtcdMember>(str("m", i)));
    entries.push_back(
        str(members_.back()->name(), "=", members_.back()->peer_url()));
  }
  list_ = join(entries, ",");
  for (int i = 0; i < size; ++i) {
    start(i);
  }
  for (const auto& member : members_) {
    store::EtcdKv({member->endpoint()}, "ping")
        .ping(Deadline::after(std::chrono::seconds(30)));
  }
}

std::string EtcdCluster::endpoints() const {
  std::vector<std::string> texts;
  for (const auto& member : members_) {
    texts.push_back(member->endpoint().text());
  }
  return join(texts, ",");
}

int EtcdCluster::leader() const {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!deadline.expired()) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i]->runs()) {
        continue;
      }
      store::EtcdClient client({members_[i]->endpoint()}, {});
      const auto status = client.call(
          "maintenance/status",
          nlohmann::json::object(),
          Deadline::after(std::chrono::seconds(5)));
      if (status.value("leader", "") ==
          status.at("header").value("member_id", "?")) {
        return static_cast<int>(i);
      }
    }
  }
  throw TimeoutError("the etcd cluster has no leader");
}

EtcdProcess::EtcdProcess(store::TlsFiles tls) : member_("default", tls) {
  start();
  store::EtcdKv({endpoint()}, "ping", {.https = tls.on(), .tls = tls})
      .ping(Deadline::after(std::chrono::seconds(20)));
}

void EtcdProcess::start() {
  member_.start(str(member_.name(), "=", member_.peer_url()));
}

EtcdProcess& shared_etcd() {
  static EtcdProcess process;
  return process;
}

} // namespace argosy::testing
