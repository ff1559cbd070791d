#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <vector>

namespace argosy::training {

// Decides when each bucket of gradients is reduced. Pure: it sees the indices
// of parameters and buckets, no tensors and no ranks.
//
// Gradients arrive in any order during backward, but all ranks must reduce the
// buckets in the same order. So buckets have a fixed order, and a bucket is
// launched when it is full and all buckets before it have been launched.
class GradientSchedule {
 public:
  GradientSchedule() = default;

  // `buckets[b]` lists the parameters of bucket b. Buckets are launched in the
  // order of the list. Throws InvalidArgument if a parameter is in two buckets.
  explicit GradientSchedule(std::vector<std::vector<std::size_t>> buckets);

  // The same buckets, launched in the order in which they would become full if
  // gradients arrived in the order `arrivals`.
  GradientSchedule ordered_by(const std::vector<std::size_t>& arrivals) const;

  // Starts a pass: no gradient has arrived, no bucket is launched.
  void begin();

  // Notes that the gradient of a parameter has arrived. Returns its bucket if
  // that is full now. The parameter must not have arrived in this pass.
  std::optional<std::size_t> arrive(std::size_t parameter);
  bool has_arrived(std::size_t parameter) const;

  // The next bucket to launch, or none if that bucket is not full. Each bucket
  // is returned once in a pass.
  std::optional<std::size_t> next();

  bool is_full(std::size_t bucket) const { return pending_[bucket] == 0; }

  const std::vector<std::vector<std::size_t>>& buckets() const {
    return buckets_;
  }
  // The buckets in the order in which they are launched.
  const std::vector<std::size_t>& order() const { return order_; }
  // The parameters in the order in which they have arrived in this pass.
  const std::vector<std::size_t>& arrivals() const { return arrivals_; }
  // The parameters that have not arrived in this pass, ascending.
  std::vector<std::size_t> missing() const;

 private:
  friend std::ostream& operator<<(
      std::ostream& out, const GradientSchedule& schedule);

  static constexpr std::size_t kNone = ~std::size_t{0};

  std::size_t bucket_of(std::size_t parameter) const;

  std::vector<std::vector<std::size_t>> buckets_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> bucket_of_; // by parameter; kNone: in no bucket

  // Of the current pass.
  std::vector<std::size_t> pending_; // by bucket: gradients still to arrive
  std::vector<bool> has_arrived_;    // by parameter
  std::vector<std::size_t> arrivals_;
  std::size_t num_launched_ = 0;
};

// "bucket 1: launched; bucket 0: 2 of 3 gradients"
std::ostream& operator<<(std::ostream& out, const GradientSchedule& schedule);

// The order in which gradients most likely arrive: the reverse of the order in
// which the parameters were registered.
std::vector<std::size_t> expected_order(std::size_t num_parameters);

} // namespace argosy::training
