#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace argosy {
class Group;
}

namespace argosy::optim {

struct EmaOptions {
  double decay = 0.999;
  // Start at 0 and divide by 1 - decay^t, instead of starting at the values of
  // the parameters at construction.
  bool bias_correction = false;
};

// The exponential moving average of parameters, in float32 (float64 for float64
// parameters), in one flat buffer. Of a DTensor, each rank averages its part:
// all tensors here are then those of parts. Not thread-safe.
class Ema {
 public:
  // Throws InvalidArgument if decay is not in [0, 1), or if a parameter is not
  // a dense tensor of floats on the CPU.
  Ema(std::vector<at::Tensor> params, EmaOptions options = {});

  // average = decay * average + (1 - decay) * parameter. Call it after each
  // step of the optimizer.
  void update();

  // Collective: replaces the averages by their means over the ranks of the
  // group (null: all), which have called update() equally often. The means are
  // the averages of the ranks' mean parameters, because both are sums.
  void average_ranks(const std::shared_ptr<Group>& group = nullptr);

  // apply() copies the averages into the parameters, restore() the parameters'
  // own values. Both throw InvalidArgument if that is already the case; apply()
  // with bias correction also throws before the first update().
  void apply();
  void restore();
  bool applied() const { return !saved_.empty(); }

  // The average of one parameter, as apply() copies it.
  at::Tensor average(std::size_t index) const;

  // For checkpoints: the averages before correction, and the number of updates.
  const std::vector<at::Tensor>& params() const { return params_; }
  const std::vector<at::Tensor>& state() const { return averages_; }
  std::int64_t num_updates() const { return num_updates_; }
  void load(const std::vector<at::Tensor>& state, std::int64_t num_updates);

 private:
  std::vector<at::Tensor> params_;
  EmaOptions options_;
  std::vector<at::Tensor> buffers_;  // one for each type: flat
  std::vector<at::Tensor> averages_; // in them, as the parameter is in memory
  std::vector<at::Tensor> saved_;    // own values, while applied
  std::int64_t num_updates_ = 0;
};

} // namespace argosy::optim
