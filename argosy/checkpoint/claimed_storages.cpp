#include "argosy/checkpoint/claimed_storages.h"

#include <map>
#include <mutex>

namespace argosy::checkpoint {

namespace {

struct Claims {
  std::mutex mutex;
  std::map<const void*, const ClaimedStorages*> owners; // guarded by mutex
};

// Of the process: thread ranks have worlds of their own, and memory in common.
Claims& claims() {
  static Claims all;
  return all;
}

} // namespace

bool ClaimedStorages::claim(const at::Tensor& tensor) {
  const void* const storage = tensor.storage().unsafeGetStorageImpl();
  const std::lock_guard lock(claims().mutex);
  const auto [found, is_new] = claims().owners.emplace(storage, this);
  if (is_new) {
    own_.push_back(storage);
  }
  return found->second == this;
}

ClaimedStorages::~ClaimedStorages() {
  const std::lock_guard lock(claims().mutex);
  for (const void* const storage : own_) {
    claims().owners.erase(storage);
  }
}

} // namespace argosy::checkpoint
