#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace argosy {
class Group;
}

namespace argosy::optim {

struct LocalSgdOptions {
  int k_steps = 1;    // between two averages
  int begin_step = 1; // up to this one, every step averages
};

// Ranks step on their own, and average their parameters now and then (Stich
// 2019): call step() after each step of the optimizer. What the optimizer keeps
// is not averaged.
//
// All members of the group make it with parameters of the same shapes and
// values, and call step() equally often. One all_reduce for each type of
// parameters.
class LocalSgd {
 public:
  // Group null is that of all ranks. Throws InvalidArgument when k_steps or
  // begin_step is below 1.
  LocalSgd(
      std::vector<at::Tensor> params,
      LocalSgdOptions options,
      std::shared_ptr<Group> group = nullptr);
  ~LocalSgd();
  LocalSgd(LocalSgd&&) noexcept;

  // Returns whether parameters were averaged.
  bool step();

  // Averages now.
  void average();

  int k_steps() const { return options_.k_steps; }
  void set_k_steps(int k_steps);
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Snapshots;

  LocalSgdOptions options_;
  std::shared_ptr<Group> group_;
  std::unique_ptr<Snapshots> snapshots_;
  std::int64_t num_steps_ = 0;
  std::int64_t last_average_ = 0;
};

struct AdaptiveLocalSgdOptions {
  int init_k_steps = 1;
  int begin_step = 1;
};

// How many steps to go before the next average: fewer, the smaller loss and
// learning rate have become (Wang and Joshi 2019, as Paddle has it): the root
// of lr0 * loss / (lr * loss0) * init_k_steps, rounded up, in [1, 16].
int next_k_steps(
    int init_k_steps, double lr0, double loss0, double lr, double loss);

// LocalSgd that chooses k_steps at every average.
class AdaptiveLocalSgd {
 public:
  AdaptiveLocalSgd(
      std::vector<at::Tensor> params,
      AdaptiveLocalSgdOptions options,
      std::shared_ptr<Group> group = nullptr);

  // With this rank's loss and learning rate; the mean of the losses counts.
  // Returns whether parameters were averaged.
  bool step(double loss, double lr);

  int k_steps() const { return local_.k_steps(); }

 private:
  struct Start {
    double loss;
    double lr;
  };

  double mean_loss(double loss) const;

  AdaptiveLocalSgdOptions options_;
  std::shared_ptr<Group> group_;
  LocalSgd local_;
  std::optional<Start> start_;
};

} // namespace argosy::optim
