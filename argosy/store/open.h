#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace argosy::store {

struct OpenOptions {
  bool serve = false; // a tcp store: host it in this process
  std::string prefix; // of all keys; empty: none

  // Limits opening, and later every call that is given no other limit. The
  // URL's timeout goes before it.
  std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout;
};

// The c10d::Store at a URL (see url.h):
//   mem://name   a KvStore over the MemKv of that name in this process
//   file:///path a c10d::FileStore; its folder must exist
//   tcp://...    a TcpStore, which speaks with torch's c10d::TCPStore; the host
//                may start later
//   etcd://...   a KvStore over an EtcdKv
// Returns when the store answers. Throws InvalidArgument for a bad URL;
// StoreError when the store refuses, something else answers, the host does not
// resolve or the port to serve on is taken; TimeoutError when nothing answers.
c10::intrusive_ptr<c10d::Store> open(
    const std::string& url, const OpenOptions& options = {});

} // namespace argosy::store
