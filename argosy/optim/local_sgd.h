#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace argosy {
class Group;
}

namespace argosy::optim {

struct LocalSgdOptions {
  int k_steps = 1;    // steps between two averages
  int begin_step = 1; // every step up to this one averages
};

// Local SGD (Stich 2019): ranks step independently and average their parameters
// every k_steps steps. Call step() after each step of the optimizer. The state
// of the optimizer stays each rank's own unless average_states() says how to
// average it, which all but SGD need: moments of other parameters would scale
// the next steps.
//
// All ranks of the group construct it with parameters of the same shapes and
// values, and call step() equally often, which blocks when it averages. An
// average is one all_reduce for each type of parameter.
class LocalSgd {
 public:
  // `group` null: all ranks. Throws InvalidArgument if k_steps or begin_step is
  // below 1.
  LocalSgd(
      std::vector<at::Tensor> params,
      LocalSgdOptions options,
      std::shared_ptr<Group> group = nullptr);
  ~LocalSgd();
  LocalSgd(LocalSgd&&) noexcept;

  // Called at each average, on all ranks of the group, to average more.
  void average_states(std::function<void(const std::shared_ptr<Group>&)> fn) {
    average_states_ = std::move(fn);
  }

  // Returns whether parameters were averaged.
  bool step();

  // Collective: averages now.
  void average();

  int k_steps() const { return options_.k_steps; }
  void set_k_steps(int k_steps);
  std::int64_t num_steps() const { return num_steps_; }

  // For checkpoints, which average() first: then the parameters are all that
  // is left of earlier steps, besides these numbers. set_state() takes the
  // parameters as they are for averages, alike on all ranks.
  struct State {
    std::int64_t num_steps = 0;
    int k_steps = 1;
  };
  State state() const { return {num_steps_, options_.k_steps}; }
  void set_state(const State& state);

 private:
  struct Snapshots;

  LocalSgdOptions options_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<Snapshots> snapshots_;
  std::function<void(const std::shared_ptr<Group>&)> average_states_;
  std::int64_t num_steps_ = 0;
  std::int64_t last_average_ = 0;
};

struct AdaptiveLocalSgdOptions {
  int init_k_steps = 1;
  int begin_step = 1;
};

// The number of steps before the next average (Wang and Joshi 2019, in Paddle's
// form): sqrt(lr0 * loss / (lr * loss0) * init_k_steps), rounded up and clamped
// to [1, 16].
int next_k_steps(
    int init_k_steps, double lr0, double loss0, double lr, double loss);

// LocalSgd that chooses k_steps anew at every average; see next_k_steps().
class AdaptiveLocalSgd {
 public:
  // `loss_group` has the ranks that must choose alike: all whose parameters
  // depend on one another. Null: `group`.
  AdaptiveLocalSgd(
      std::vector<at::Tensor> params,
      AdaptiveLocalSgdOptions options,
      std::shared_ptr<Group> group = nullptr,
      std::shared_ptr<Group> loss_group = nullptr);

  // Takes this rank's loss and learning rate; uses the mean loss of the ranks
  // of loss_group. Returns whether parameters were averaged.
  bool step(double loss, double lr);

  int k_steps() const { return local_.k_steps(); }

  // As in LocalSgd.
  void average() { local_.average(); }
  void average_states(std::function<void(const std::shared_ptr<Group>&)> fn) {
    local_.average_states(std::move(fn));
  }
  struct Start {
    double loss = 0;
    double lr = 0;
  };
  struct State {
    LocalSgd::State local;
    std::optional<Start> start; // none before the first step
  };
  State state() const { return {local_.state(), start_}; }
  void set_state(const State& state);

 private:
  double mean_loss(double loss) const;

  AdaptiveLocalSgdOptions options_;
  std::shared_ptr<Group> loss_group_;
  LocalSgd local_;
  std::optional<Start> start_;
};

} // namespace argosy::optim
