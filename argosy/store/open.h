#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

#include "argosy/store/credentials.h"

namespace argosy::store {

struct OpenOptions {
  bool serve = false; // for tcp and c10d: host the store in this process
  std::string prefix; // prefix of all keys; empty: none

  // Limits opening and, by default, every later call. A timeout in the URL
  // takes precedence.
  std::chrono::milliseconds timeout = c10d::Store::kDefaultTimeout;

  // For tcp and etcd. A process of a job reads its own with credentials_of().
  Credentials credentials{};

  // Who serves a tcp store, for messages: "rank 0". Empty: not known.
  std::string owner = {};
};

// Opens the c10d::Store at a URL (see url.h):
//   mem://name   a KvStore over the MemKv of that name in this process
//   file:///path a c10d::FileStore; its folder must exist
//   tcp://...    a KvStore over a TcpKv; the server may start later. Served
//                with OpenOptions::serve on the address of that host, see
//                listen_host()
//   c10d://...   a TcpStore, compatible with torch's c10d::TCPStore, which has
//                no secret and listens on all interfaces
//   etcd://...   a KvStore over an EtcdKv; etcds:// over https
// Blocks until the store answers. Throws InvalidArgument for a bad URL;
// StoreError when the store refuses, something else answers, the host does not
// resolve or the port to serve on is in use; TimeoutError when nothing answers.
c10::intrusive_ptr<c10d::Store> open(
    const std::string& url, const OpenOptions& options = {});

} // namespace argosy::store
