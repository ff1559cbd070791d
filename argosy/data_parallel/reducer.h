#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/data_parallel/bucket_plan.h"

namespace argosy::data_parallel {

class BucketHook;

using NamedTensor = std::pair<std::string, at::Tensor>;

struct ReducerOptions {
  Fusion fusion;
  GroupPtr group;
  // A step may leave parameters without a gradient. Before each backward the
  // reducer walks the graph to find them.
  bool find_unused_parameters = false;
  // Every step uses the same parameters: the reducer walks the graph once.
  bool static_graph = false;
  std::shared_ptr<BucketHook> hook; // null: the plain average
  // Accumulate and reduce gradients of 16-bit parameters in float32.
  bool main_grad = false;
  // Names of the parameters that have sparse gradients.
  std::vector<std::string> sparse;
};

// Averages gradients over the ranks of a group during backward.
// training::GradientReduction decides when a bucket is reduced; this class owns
// the buckets and does it.
//
// Gradients become views into the buckets. After the first backward the buckets
// are planned anew, in the order in which gradients arrived. Errors come out of
// backward().
class Reducer {
 public:
  Reducer(const std::vector<NamedTensor>& parameters, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Collective after a failed backward, otherwise does nothing. Call it before
  // each forward in grad mode; see training::GradientReduction::recover().
  void recover();

  // Call it after each forward in grad mode, with the outputs of the model.
  void prepare(const Tensors& outputs);

  // If false, gradients are not reduced: they stay on this rank and accumulate.
  void set_sync(bool sync);
  bool sync() const;

  // Collective, outside of backward: reduces what has accumulated without sync.
  void reduce();

  // Collective, for a rank that has no more inputs: takes part in the
  // reductions of one backward of the other ranks, with zeros.
  void shadow();

  // Sums of gradients are divided by `divisor` instead of the number of ranks,
  // from the next backward on. 0 restores the number of ranks.
  void set_divisor(int divisor);

  const BucketPlan& plan() const;

  // Drops all gradients, so that the next backward writes instead of adding.
  void zero_grad();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::data_parallel
