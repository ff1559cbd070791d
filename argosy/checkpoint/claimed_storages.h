#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

// Not installed.
namespace argosy::checkpoint {

// The storages that one load of this process may write to and bring back.
// Thread ranks may share memory: what the second one of them would keep to
// bring back are new values of the first.
class ClaimedStorages {
 public:
  ClaimedStorages() = default;
  ~ClaimedStorages();
  ClaimedStorages(const ClaimedStorages&) = delete;
  ClaimedStorages& operator=(const ClaimedStorages&) = delete;

  // Whether the storage of `tensor` is ours now; not if another load of this
  // process has it.
  bool claim(const at::Tensor& tensor);

 private:
  std::vector<const void*> own_;
};

} // namespace argosy::checkpoint
