#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "argosy/common/file.h"
#include "argosy/common/net.h"

namespace argosy::testing {

// An etcd of one member on loopback, with its data in a temporary folder. It
// dies with this object, or with the thread that started it.
class EtcdProcess {
 public:
  // Starts etcd and returns when it answers.
  EtcdProcess();
  ~EtcdProcess();

  // Kills it as a power cut would; the data stays.
  void stop();

  // Starts it again on the same port. Returns without waiting for an answer.
  void start();

  Endpoint endpoint() const { return {"127.0.0.1", client_port_.port()}; }

 private:
  TempDir folder_;
  ReservedPort client_port_;
  ReservedPort peer_port_;
  pid_t pid_ = -1;
};

// The one that all tests of an executable share. Tests that stop it make their
// own.
EtcdProcess& shared_etcd();

} // namespace argosy::testing
