#pragma once

namespace argosy::training {

// While it lives, what backward of the calling thread starts from is so many
// times the loss: divided by a number of microbatches, scaled for narrow types.
// For those who add to gradients in the midst of it. Replaces an outer one.
class LossScale {
 public:
  explicit LossScale(double scale);
  ~LossScale();
  LossScale(const LossScale&) = delete;
  LossScale& operator=(const LossScale&) = delete;

  // 1 without one.
  static double current();

 private:
  const double outer_;
};

} // namespace argosy::training
