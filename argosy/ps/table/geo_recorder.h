#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace argosy::ps {

// Which rows of a partition have changed since each trainer last asked (geo
// mode: trainers push deltas and pull what others changed). One thread at a
// time.
class GeoRecorder {
 public:
  explicit GeoRecorder(int num_trainers);

  // `trainer` has pushed these keys: every other trainer has to pull them.
  // Throws InvalidArgument for a trainer that does not exist.
  void record(int trainer, std::span<const std::uint64_t> keys);

  // The keys that others changed since the last take(), ascending, each once.
  std::vector<std::uint64_t> take(int trainer);

  // How many keys wait for a trainer, some perhaps twice.
  std::size_t waiting(int trainer) const;

 private:
  std::vector<std::uint64_t>& keys_for(int trainer);
  static void deduplicate(std::vector<std::uint64_t>& keys);

  std::vector<std::vector<std::uint64_t>> changed_; // by trainer
  std::vector<std::size_t> limits_; // deduplicate when so many wait
};

} // namespace argosy::ps
