#pragma once

#include <torch/nn.h>

// Maps images [N, 1, 28, 28] to scores of ten classes [N, 10].
inline torch::nn::Sequential make_net() {
  namespace nn = torch::nn;
  return nn::Sequential(
      nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)),
      nn::ReLU(),
      nn::MaxPool2d(2),
      nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)),
      nn::ReLU(),
      nn::MaxPool2d(2),
      nn::Flatten(),
      nn::Linear(32 * 7 * 7, 128),
      nn::ReLU(),
      nn::Linear(128, 10));
}
