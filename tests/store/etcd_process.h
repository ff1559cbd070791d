#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "argosy/store/credentials.h"

namespace argosy::testing {

// A member of an etcd cluster on loopback, with its data in a temporary folder.
class EtcdMember {
 public:
  explicit EtcdMember(std::string name, store::TlsFiles tls = {});
  ~EtcdMember();

  const std::string& name() const { return name_; }
  std::string peer_url() const;
  Endpoint endpoint() const { return {"127.0.0.1", client_port_.port()}; }
  bool runs() const { return pid_ > 0; }

  // `cluster` lists all members: "a=http://127.0.0.1:1234,...". Returns without
  // waiting for an answer.
  void start(const std::string& cluster);
  // Kills it as a power cut would; the data stays.
  void stop();
  // SIGSTOP and SIGCONT: it answers nobody, but its connections stay.
  void freeze(bool frozen);

 private:
  const std::string name_;
  const store::TlsFiles tls_;
  TempDir folder_;
  ReservedPort client_port_;
  ReservedPort peer_port_;
  pid_t pid_ = -1;
};

// Several members, of which a majority must run.
class EtcdCluster {
 public:
  // Starts them and returns when they answer.
  explicit EtcdCluster(int size = 3);

  EtcdMember& member(int index) { return *members_.at(index); }
  int size() const { return static_cast<int>(members_.size()); }
  void start(int index) { members_.at(index)->start(list_); }
  // "host:port,host:port,...", as URLs have them.
  std::string endpoints() const;
  // The member that leads now. Waits until there is one.
  int leader() const;

 private:
  std::vector<std::unique_ptr<EtcdMember>> members_;
  std::string list_;
};

// An etcd of one member on loopback, with its data in a temporary folder. It
// dies with this object, or with the thread that started it.
class EtcdProcess {
 public:
  // Starts etcd and returns when it answers. With `tls`, it serves https and
  // asks clients for a certificate of the same authority.
  explicit EtcdProcess(store::TlsFiles tls = {});

  // Kills it as a power cut would; the data stays.
  void stop() { member_.stop(); }

  // Starts it again on the same port. Returns without waiting for an answer.
  void start();

  Endpoint endpoint() const { return member_.endpoint(); }

 private:
  EtcdMember member_;
};

// The one that all tests of an executable share. Tests that stop it make their
// own.
EtcdProcess& shared_etcd();

} // namespace argosy::testing
