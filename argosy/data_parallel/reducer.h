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
  // Parameters may get no gradient in a step: before each backward the graph is
  // walked to find them.
  bool find_unused_parameters = false;
  // The same parameters are used in every step: the graph is walked once.
  bool static_graph = false;
  std::shared_ptr<BucketHook> hook; // null: the plain average
  // Gradients of 16-bit parameters add up and are reduced in float32.
  bool main_grad = false;
  // Names of parameters with sparse gradients.
  std::vector<std::string> sparse;
};

// Averages gradients over the ranks of a group while backward goes on: hooks
// tell when a gradient is there, full buckets are reduced in the background,
// and the end of backward waits for the last one.
//
// Gradients become views into the buckets. The order of the buckets follows the
// first backward. Errors come out of backward().
class Reducer {
 public:
  Reducer(std::vector<NamedTensor> parameters, ReducerOptions options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Before each backward that is to be reduced, with what it starts from.
  void prepare(const Tensors& outputs);

  // Without, gradients stay local and add up.
  void set_sync(bool sync);
  bool sync() const;

  // Reduces what has added up without sync, outside of backward.
  void reduce();

  // For a rank that has no more inputs: takes part in the reductions of one
  // backward of the others, with zeros.
  void shadow();

  // What the averages are divided by in place of the number of ranks, from the
  // next backward on; 0 for the number of ranks.
  void set_divisor(int divisor);

  const BucketPlan& plan() const;

  // Lets gradients start anew: the next backward writes instead of adding.
  void zero_grad();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::data_parallel
