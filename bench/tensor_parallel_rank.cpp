// A rank of bench/tensor_parallel: does what lines on standard input say, and
// answers each with one line.
//
//   load tp 4    makes four blocks of a GPT, cut over the ranks, and trains
//                three steps; the answer is their losses. Others than tp: sp
//                cuts the sequence between layers, multi has the batch in two
//                parts, grid has the blocks on a grid of 2 x 2 ranks, limit
//                computes as much and sends nothing
//   run 5        trains five steps; the answer is the seconds they took, and
//                the megabytes that a rank sent in each
//
// The argument is the backend of the group, auto if none.

#include <torch/torch.h>

#include <iostream>
#include <memory>

#include "argosy/argosy.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/heap/allocator.h"
#include "argosy/tensor_parallel/multi_copy.h"
#include "bench/hashed.h"
#include "bench/training_server.h"
#include "examples/05_hybrid/parallel_gpt.h"

namespace argosy::bench {
namespace {

using argosy::examples::ParallelBlock;
using argosy::examples::ParallelBlockImpl;
using argosy::examples::ParallelGptOptions;

constexpr long kBatch = 4;
constexpr long kLength = 128;

GptOptions gpt_options(long layers) {
  return {.context = kLength, .width = 512, .layers = layers, .heads = 8};
}

// Blocks in a row.
struct StackImpl : torch::nn::Module {
  explicit StackImpl(const ParallelGptOptions& options) {
    for (long i = 0; i < options.gpt.layers; ++i) {
      blocks->push_back(ParallelBlock(options));
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) {
      x = block->as<ParallelBlockImpl>()->forward(x, ahead);
    }
    return x;
  }

  torch::nn::ModuleList blocks =
      register_module("blocks", torch::nn::ModuleList());
  const at::Tensor ahead =
      torch::ones({kLength, kLength}, torch::kBool).triu(1);
};
TORCH_MODULE(Stack);

struct WholeImpl : torch::nn::Module {
  explicit WholeImpl(const GptOptions& options) {
    for (long i = 0; i < options.layers; ++i) {
      blocks->push_back(Block(options));
    }
  }

  torch::nn::ModuleList blocks =
      register_module("blocks", torch::nn::ModuleList());
};

// Megabytes that this rank sent: of n ranks, a gather or a scatter sends
// (n - 1)/n of the whole, an all_reduce twice that.
double megabytes_sent(const CommDebug& debug) {
  double sum = 0;
  for (const CommDebug::Entry& entry : debug.entries()) {
    const auto n = static_cast<double>(entry.ranks.size());
    const double times = entry.collective == "all_reduce" ? 2 : 1;
    sum += times * static_cast<double>(entry.bytes) * (n - 1) / n / 1e6;
  }
  return sum;
}

class BlockTraining final : public Training {
 public:
  BlockTraining(const std::string& kind, long layers, const GroupPtr& group)
      : group_(group),
        is_cut_(kind == "sp"),
        is_grid_(kind == "grid"),
        net_(options_of(kind, layers, group)),
        optimizer_(net_->parameters(), 0.01),
        x_(uniform({kBatch, kLength, 512}, 1)) {
    if (kind != "limit") {
      WholeImpl whole(gpt_options(layers));
      set_weights(whole);
      tensor_parallel::load_module(*net_, whole, group);
    }
    if (kind == "multi") {
      parts_ = std::make_unique<MicroBatchInterleaved>(
          *net_, [this](const Tensors& in) { return loss_of(in[0]); });
    }
  }

  double step() override {
    for (const at::Tensor& each : net_->parameters()) {
      each.mutable_grad().reset();
    }
    const at::Tensor sum = parts_ ? (*parts_)({x_}) : loss_of(x_);
    const at::Tensor loss = sum / x_.numel();
    loss.backward();
    if (is_cut_) {
      reduce_sequence_parallel_gradients(*net_, group_);
    }
    optimizer_.step();
    ++steps_;
    return loss.item<double>();
  }

  void print_more(std::ostream& out) override {
    out << " " << megabytes_sent(sent_) / steps_;
  }

 private:
  static ParallelGptOptions options_of(
      const std::string& kind, long layers, const GroupPtr& group) {
    ParallelGptOptions options{gpt_options(layers), group, kind == "sp"};
    if (kind == "limit") {
      options.group = shared_group(current_world(), {get_rank()});
      options.parts = group->nranks();
    }
    if (kind == "grid") {
      options.grid = {2, 2};
    }
    return options;
  }

  at::Tensor loss_of(const at::Tensor& x) {
    if (!is_cut_ && !is_grid_) {
      return net_(x).pow(2).sum();
    }
    const at::Tensor part = is_grid_ ? TensorGrid({2, 2}, group_).part(x)
                                     : sequence_parallel::scatter(x, group_, 1);
    return tensor_parallel::reduce_from(net_(part).pow(2).sum(), group_);
  }

  const GroupPtr group_;
  const bool is_cut_;
  const bool is_grid_;
  Stack net_;
  torch::optim::SGD optimizer_;
  const at::Tensor x_;
  std::unique_ptr<MicroBatchInterleaved> parts_;
  long steps_ = 0;
  CommDebug sent_;
};

std::unique_ptr<Training> load(const GroupPtr& group) {
  std::string kind;
  long layers = 0;
  std::cin >> kind >> layers;
  return std::make_unique<BlockTraining>(kind, layers, group);
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::bench::serve_as_rank(
      argosy::bench::load, argc > 1 ? argv[1] : "auto");
}
