#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace argosy::store {

struct OpenOptions {
  bool serve = false; // for tcp: host the store in this process
  std::string prefix; // prefix of all keys; empty: none

  // Limits opening and, by default, every later call. A timeout in the URL
  // takes precedence.
  std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout;
};

// Opens the c10d::Store at a URL (see url.h):
//   mem://name   a KvStore over the MemKv of that name in this process
//   file:///path a c10d::FileStore; its folder must exist
//   tcp://...    a TcpStore, compatible with torch's c10d::TCPStore; the server
//                may start later
//   etcd://...   a KvStore over an EtcdKv
// Blocks until the store answers. Throws InvalidArgument for a bad URL;
// StoreError when the store refuses, something else answers, the host does not
// resolve or the port to serve on is in use; TimeoutError when nothing answers.
c10::intrusive_ptr<c10d::Store> open(
    const std::string& url, const OpenOptions& options = {});

} // namespace argosy::store
