#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

// A model that knows nothing of servers, for tests.
namespace argosy::fleet {

inline constexpr int kDim = 4;
inline constexpr int kRows = 12;
inline constexpr int kSteps = 8;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    items = register_module("items", torch::nn::Embedding(kRows, kDim));
    tags = register_module("tags", torch::nn::EmbeddingBag(kRows, kDim));
    out = register_module("out", torch::nn::Linear(2 * kDim, 1));
  }
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& bags) {
    return out(torch::cat({items(ids), tags(bags)}, 1)).squeeze(1);
  }
  torch::nn::Embedding items{nullptr};
  torch::nn::EmbeddingBag tags{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Net);

// Each batch has every id.
inline torch::Tensor ids_of(int worker, int step) {
  return (torch::arange(kRows) * (worker == 0 ? 5 : 7) + step).remainder(kRows);
}
inline torch::Tensor bags_of(int worker, int step) {
  return torch::stack(
      {ids_of(worker, step), ids_of(worker, step + 3 + worker)}, 1);
}
// Of a Net, or of what fleet makes of it.
template <typename Model>
torch::Tensor loss_of(Model& model, int worker, int step) {
  return (model(ids_of(worker, step), bags_of(worker, step)) -
          0.25 * (worker + 1))
      .pow(2)
      .mean();
}

using Values = std::vector<torch::Tensor>;

// All rows and the dense weights, wherever they are.
inline Values values_of(Net& net) {
  const torch::NoGradGuard no_grad;
  const auto all = torch::arange(kRows);
  return {
      torch::embedding(net->items->weight, all),
      torch::embedding(net->tags->weight, all),
      net->out->weight.detach().clone(),
      net->out->bias.detach().clone()};
}

inline void set_values(Net& net, const Values& values) {
  const torch::NoGradGuard no_grad;
  net->items->weight.copy_(values[0]);
  net->tags->weight.copy_(values[1]);
  net->out->weight.copy_(values[2]);
  net->out->bias.copy_(values[3]);
}

inline bool same_bits(const Values& a, const Values& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) {
    same = torch::equal(a[i], b[i]);
  }
  return same;
}

inline double rate_of(int step) {
  return step < kSteps / 2 ? 0.5 : 0.25; // a schedule
}

// One process: sums of the workers' gradients in their order, then `update`.
template <typename Update>
Values train_alone(const Values& start, int num_workers, const Update& update) {
  Net net;
  set_values(net, start);
  for (int step = 0; step < kSteps; ++step) {
    Values sums;
    for (int worker = 0; worker < num_workers; ++worker) {
      net->zero_grad();
      loss_of(net, worker, step).backward();
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        const auto grad = net->parameters()[i].grad();
        if (worker == 0) {
          sums.push_back(grad.clone());
        } else {
          sums[i] = sums[i] + grad;
        }
      }
    }
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      net->parameters()[i].mutable_grad() =
          sums[i] / static_cast<float>(num_workers);
    }
    update(net, step);
  }
  return values_of(net);
}

// As servers do it: two roundings, no fused multiply-add.
inline void sgd_of_servers(Net& net, int step) {
  for (torch::Tensor& parameter : net->parameters()) {
    parameter.copy_(parameter - parameter.grad() * rate_of(step));
  }
}

} // namespace argosy::fleet
