#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}
namespace argosy {
class Group;
}

// Plain tensors that enter a mesh count as the same on all its ranks, and
// nothing is sent. When they are not the same, copies that should stay equal
// diverge without an error. So ranks compare hashes of them at first.
namespace argosy::dtensor {

class MeshState;

// What one rank compares, and what it has compared. Thread-safe. All ranks
// decide alike, as they run the same program.
class ValueChecks {
 public:
  // How often values of one kind are compared: ARGOSY_CHECK_VALUES.
  ValueChecks();

  int times() const { return times_.load(std::memory_order_relaxed); }
  void set_times(int times);

  // Whether to compare now, which then counts as done: the first times() calls
  // for each kind are.
  bool take(std::uint64_t kind);

 private:
  std::atomic<int> times_;
  std::mutex mutex_;
  std::map<std::uint64_t, int> done_; // guarded by mutex_
};

// Of the calling thread's rank.
std::shared_ptr<ValueChecks> value_checks();

// While it lives, the calling thread compares nothing: the values have been
// compared, or are known to be equal.
class TrustedValues {
 public:
  TrustedValues();
  ~TrustedValues();
  TrustedValues(const TrustedValues&) = delete;
  TrustedValues& operator=(const TrustedValues&) = delete;

  static bool is_active();

 private:
  const bool outer_;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Throws InvalidArgument on all ranks of the mesh when tensors that should be
// equal on them differ. Collective. The message begins with `what`, which says
// what they are.
void check_equal_on(
    MeshState& mesh, const NamedTensors& tensors, const std::string& what);

// The same on the ranks that differ from this one only on these axes.
void check_equal_over(
    MeshState& mesh,
    const std::vector<int>& axes,
    const NamedTensors& tensors,
    const std::string& what);

// A number for tensors of one type and shape on a mesh, to count them by.
std::uint64_t kind_of(const MeshState& mesh, const at::Tensor& data);

// Of what shard_tensor() is given: compares the first ones of each shape.
void check_plain(MeshState& mesh, const at::Tensor& data);

} // namespace argosy::dtensor
