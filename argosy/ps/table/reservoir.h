#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace argosy::ps {

// Gradients of a synchronous step, before the server applies them. They are
// added in the order of trainers, whatever order they arrive in, so that a step
// gives the same bits every time: what comes early waits. One thread at a time.

// For dense tables.
class DenseReservoir {
 public:
  DenseReservoir(int num_trainers, std::size_t size);

  // Throws InvalidArgument for a trainer that does not exist or has already
  // pushed in this step, or a wrong size.
  void push(int trainer, std::span<const float> gradient);

  bool complete() const { return next_ == num_trainers_; }

  // The mean over trainers; the next step begins. Throws InvalidArgument, with
  // the trainers that are missing, unless complete().
  std::vector<float> pour();

  void clear();

 private:
  void add(std::span<const float> gradient);

  int num_trainers_;
  int next_ = 0; // trainers below have been added
  std::vector<float> sum_;
  std::map<int, std::vector<float>> early_;
};

// For a partition of a sparse table. A trainer may push several times in a
// step, and not at all.
class SparseReservoir {
 public:
  SparseReservoir(int num_trainers, int push_dim);

  void push(
      int trainer,
      std::span<const std::uint64_t> keys,
      std::span<const float> records);

  struct Merged {
    std::vector<std::uint64_t> keys; // ascending
    std::vector<float> records;      // sums over trainers
  };

  // The next step begins. Fields from `first_gradient` on are divided by
  // `trainers`, for the mean; those before are summed, except for a slot, the
  // first field if `has_slot`, of which the last stays.
  Merged pour(int first_gradient, bool has_slot, int trainers);

  void clear();

 private:
  struct Pushed {
    std::vector<std::uint64_t> keys;
    std::vector<float> records;
  };

  int push_dim_;
  std::vector<Pushed> by_trainer_;
};

} // namespace argosy::ps
