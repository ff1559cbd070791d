#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace argosy::optim {

struct EmaOptions {
  double decay = 0.999;
  // Begin at 0 and divide by 1 - decay^t, instead of beginning at the values
  // that the parameters have when the average is made.
  bool bias_correction = false;
};

// Exponential moving average of parameters, in float32 (float64 for float64
// ones), in one flat buffer.
class Ema {
 public:
  // Throws InvalidArgument when decay is not in [0, 1), or a parameter is not a
  // dense tensor of floats on the CPU.
  Ema(std::vector<at::Tensor> params, EmaOptions options = {});

  // average = decay * average + (1 - decay) * parameter. After each step.
  void update();

  // Gives the parameters the values of the average; restore() gives back their
  // own. Throw InvalidArgument when that is the case already, and apply() with
  // bias correction before the first update.
  void apply();
  void restore();
  bool applied() const { return !saved_.empty(); }

  // The average of one parameter, as apply() gives it.
  at::Tensor average(std::size_t index) const;

  // For checkpoints: the averages before correction, and the number of updates.
  const std::vector<at::Tensor>& state() const { return averages_; }
  std::int64_t num_updates() const { return num_updates_; }
  void load(const std::vector<at::Tensor>& state, std::int64_t num_updates);

 private:
  std::vector<at::Tensor> params_;
  EmaOptions options_;
  std::vector<at::Tensor> averages_; // in the order of the parameter in memory
  std::vector<at::Tensor> saved_;    // own values, while applied
  std::int64_t num_updates_ = 0;
};

} // namespace argosy::optim
