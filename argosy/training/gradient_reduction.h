#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/operation/label.h"
#include "argosy/comm/ops.h"
#include "argosy/torch_hooks/grad_hook.h"
#include "argosy/training/gradient_schedule.h"

namespace argosy::training {

// What a way of training does with its buckets of gradients: data parallelism
// averages them, sharding leaves each rank its slice of the average.
//
// GradientReduction calls these functions, on the thread that runs backward.
// Parameters and buckets are indices of its schedule. What they throw comes out
// of backward().
class BucketReducer {
 public:
  virtual ~BucketReducer() = default;

  // Copies a gradient that has arrived into its bucket. An undefined gradient
  // counts as zeros.
  virtual void take(std::size_t parameter) = 0;

  // A gradient has arrived while synchronization is off: it stays on this rank
  // and accumulates.
  virtual void accumulate(std::size_t parameter) = 0;

  // All gradients of the bucket have arrived. It may not be its turn yet.
  virtual void on_full(std::size_t /*bucket*/) {}

  // Starts to reduce a full bucket and returns without waiting for the result.
  virtual void launch(std::size_t bucket) = 0;

  // All buckets are launched: waits until all are reduced.
  virtual void finish() = 0;

  // Makes the reduced value the gradient of the parameter. Called after
  // finish() for each parameter that any rank has used.
  virtual void publish(std::size_t parameter) = 0;

  // Called once, after the first pass, with the order in which gradients
  // arrived on the group's first rank. Returns the schedule of later passes.
  virtual GradientSchedule reschedule(
      const std::vector<std::size_t>& arrivals) = 0;

  // Backward has thrown: waits for the buckets that are being reduced and
  // discards the pass. Must not start to communicate, because other ranks may
  // not have failed.
  virtual void abandon() noexcept = 0;
};

struct GradientReductionOptions {
  std::string tag; // how error messages begin: "[module]"
  // What to do if a rank has fewer batches than the others.
  std::string uneven_advice =
      "give all ranks equally many (SamplerOptions::pad)";
  // The groups over which gradients are reduced. The first rank of the first
  // one decides the order of the buckets.
  std::vector<GroupPtr> groups;
  // A pass may leave parameters without a gradient. They count as zeros, and a
  // parameter that no rank has used keeps the gradient that it had.
  bool find_unused_parameters = false;
  // As find_unused_parameters, but every pass uses the same parameters, so that
  // ranks exchange which ones only once.
  bool static_graph = false;
};

// Reduces gradients during backward: hooks on the parameters report when
// gradients arrive, full buckets are launched in the order that all ranks
// share, and the end of backward waits for the last one.
//
// If backward throws, the pass is abandoned, and the next forward or backward
// first checks that all ranks have failed. All ranks then train on. If only
// some have failed, all ranks get an error, at the latest at the deadline of
// the group.
class GradientReduction {
 public:
  // `parameters` are leaves by index; undefined tensors are left out.
  // `reducer` must outlive this.
  GradientReduction(
      const std::vector<std::pair<std::string, at::Tensor>>& parameters,
      GradientReductionOptions options,
      BucketReducer& reducer);
  GradientReduction(const GradientReduction&) = delete;
  GradientReduction& operator=(const GradientReduction&) = delete;

  // Outside of backward.
  void set_schedule(GradientSchedule schedule);
  const GradientSchedule& schedule() const { return schedule_; }

  // If false, gradients are not reduced: they stay on this rank and accumulate.
  void set_sync(bool sync) { sync_ = sync; }
  bool sync() const { return sync_; }

  // Collective after a failed backward, otherwise does nothing: waits for the
  // other ranks, which must have failed too. Each pass begins with it; call it
  // before other collectives of the model.
  void recover();

  // Whether the next backward is expected to give the parameter a gradient. A
  // parameter that is not expected counts as zeros from the start of the pass,
  // so that its bucket need not wait for the end.
  bool needs_expectations() const;
  // Expects those that backward from these tensors reaches.
  void expect_from(const Tensors& outputs);

  // Collective, outside of backward: reduces what has accumulated without sync.
  void reduce();

  // The same for what has accumulated so far, except for the parameters in
  // `kept`, by index: their gradients stay as they are. reduce() takes the
  // rest. Unless find_unused_parameters is set, all ranks must have gradients
  // in the same buckets.
  void reduce_early(const std::set<std::size_t>& kept);

  // Collective: takes part in one backward of the other ranks with zeros.
  void reduce_zeros();

  // Drops all gradients, so that the next backward writes instead of adding.
  void zero_grad();

 private:
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::optional<torch_hooks::GradHook> hook;
    bool expected = true;
    bool used = false; // by this rank in this pass
    // reduce_early() has reduced a gradient of any rank since reduce().
    bool is_early = false;
  };

  bool allows_unused() const {
    return options_.find_unused_parameters || options_.static_graph;
  }
  void on_gradient(std::size_t parameter);
  void begin();
  void begin_backward();
  void reduce_accumulated(bool is_backward, bool zeros_for_missing);
  void arrive(std::size_t parameter, bool used);
  void end();
  void take_missing();
  void check_missing(const std::vector<std::size_t>& missing) const;
  std::vector<bool> waiting_gradients(const std::set<std::size_t>& kept) const;
  void flush(const std::set<std::size_t>& kept);
  void reduce_rest();
  WorkPtr share_used();
  void publish();
  void follow_observed_order();
  void abandon() noexcept;
  void label_buckets();

  const GradientReductionOptions options_;
  BucketReducer& reducer_;
  std::vector<Parameter> parameters_;
  GradientSchedule schedule_;
  std::vector<OpLabel> labels_; // of the schedule's buckets
  bool sync_ = true;
  bool order_is_known_ = false;
  bool usage_is_known_ = false; // of a static graph, after the first pass
  at::Tensor used_by_any_;      // int, by parameter; undefined: all are used
  bool has_failed_ = false;     // the last pass has; see recover()

  // Of the current pass.
  bool under_way_ = false;
  bool is_backward_ = false; // so that its order of arrivals is worth following
};

} // namespace argosy::training
