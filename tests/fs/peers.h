#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "tests/fs/fault_proxy.h"

namespace argosy::testing {

enum class PeerKind {
  Local,
  WebHdfs,
  PlainWebHdfs, // cannot replace a file by renaming another, as HttpFS
  S3,
};

const std::vector<PeerKind> kAllPeers = {
    PeerKind::Local, PeerKind::WebHdfs, PeerKind::PlainWebHdfs, PeerKind::S3};
const std::vector<PeerKind> kServers = {
    PeerKind::WebHdfs, PeerKind::PlainWebHdfs, PeerKind::S3};

std::string peer_name(PeerKind kind);

// A place where files can be: a folder, or a server that is not ours.
class Peer {
 public:
  virtual ~Peer() = default;

  // The URL of a folder that nobody has used.
  virtual std::string new_folder() = 0;

  // What open() needs to reach it.
  virtual Environment environment() const { return {}; }

  // Partial files and uploads, seen past Argosy's own code.
  virtual int num_leftovers() const = 0;

  // What stands between the client and the server. Not for local folders.
  virtual FaultProxy& faults() { throw InternalError("no server"); }
};

// For a server over HTTPS.
struct TlsFiles {
  std::string key;
  std::string certificate;
  std::string authority; // who has signed it
};
std::unique_ptr<Peer> make_tls_peer(PeerKind kind, const TlsFiles& files);

// The one that all tests of an executable share. Its server ends with the
// executable.
Peer& shared_peer(PeerKind kind);

} // namespace argosy::testing
