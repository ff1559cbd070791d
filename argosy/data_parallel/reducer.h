#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/data_parallel/bucket_plan.h"
#include "argosy/training/gradient_reduction.h"

namespace argosy::data_parallel {

using NamedTensor = std::pair<std::string, at::Tensor>;

// What to do if a rank has fewer batches than the others.
inline constexpr const char* kUnevenAdvice =
    "train with join() of DataParallel, or give all ranks equally many batches "
    "(SamplerOptions::pad)";

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
// the buckets and reduces them.
//
// Gradients become views into the buckets. After the first backward the buckets
// are planned anew, in the order in which gradients arrived. Errors come out of
// backward().
class Reducer final : private training::BucketReducer {
 public:
  Reducer(const std::vector<NamedTensor>& parameters, ReducerOptions options);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Call it after each forward in grad mode, with the outputs of the model.
  void prepare(const Tensors& outputs);

  // Sums of gradients are divided by `divisor` instead of the number of ranks,
  // from the next backward on. 0 restores the number of ranks.
  void set_divisor(int divisor) { divisor_ = divisor; }

  const BucketPlan& plan() const { return plan_; }

  // For sync, recover(), reduce(), reduce_zeros() and zero_grad().
  training::GradientReduction& reduction() { return reduction_; }

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    bool sparse = false;
    c10::ScalarType type = c10::kFloat; // of the gradient
    at::Tensor view; // of the bucket's memory; undefined for sparse gradients
  };

  struct BucketState {
    GradBucket gradients;
    bool sparse = false;
    bool in_flight = false; // between start() and finish() of the hook
  };

  void add(const NamedTensor& named);
  void plan_anew(const std::vector<std::size_t>& order);
  void lay_out(const BucketPlan& plan);
  void adopt(Parameter& parameter, const at::Tensor& view);
  void check_layout(const Parameter& parameter) const;
  void finish(BucketState& bucket);

  void take(std::size_t index) override;
  void accumulate(std::size_t index) override;
  void launch(std::size_t index) override;
  void finish() override;
  void publish(std::size_t index) override;
  training::GradientSchedule reschedule(
      const std::vector<std::size_t>& arrivals) override;
  void abandon() noexcept override;

  const ReducerOptions options_;
  const std::shared_ptr<BucketHook> hook_;
  std::vector<Parameter> parameters_;
  BucketPlan plan_;
  std::vector<BucketState> buckets_;
  int divisor_ = 0;
  training::GradientReduction reduction_;
};

} // namespace argosy::data_parallel
