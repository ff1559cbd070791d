#include "tests/fs/peers.h"

#include <filesystem>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy::testing {

namespace {

int count_leftovers(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    count += entry.path().string().ends_with("argosy-partial") ? 1 : 0;
  }
  return count;
}

class LocalPeer : public Peer {
 public:
  std::string new_folder() override {
    return (folder_.path() / str("test", next_++)).string();
  }
  int num_leftovers(const std::string& path) override {
    return count_leftovers(path);
  }

 private:
  TempDir folder_;
  int next_ = 0;
};

} // namespace

std::vector<PeerKind> all_peers() {
  return {PeerKind::Local};
}

std::string peer_name(PeerKind) {
  return "Local";
}

Peer& shared_peer(PeerKind) {
  static LocalPeer local;
  return local;
}

} // namespace argosy::testing
