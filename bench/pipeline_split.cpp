// Backward of a GPT block in two halves, for inputs and for weights, compared
// to the whole backward and to the matrix products of each half.

#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>

#include "argosy/argosy.h"
#include "argosy/torch_hooks/split_backward.h"
#include "bench/harness.h"
#include "examples/02_gpt/gpt.h"

namespace argosy::bench {
namespace {

using argosy::Tensors;
using torch_hooks::SplitBackward;

struct Size {
  long batch = 0;
  long length = 0;
  long width = 0;
  long heads = 0;
};

class BlockBackward {
 public:
  explicit BlockBackward(const Size& size)
      : block_(GptOptions{.width = size.width, .heads = size.heads}),
        x_(at::randn({size.batch, size.length, size.width}).requires_grad_()),
        gradient_(at::randn(x_.sizes())),
        ahead_(at::ones({size.length, size.length}, at::kBool).triu(1)) {}

  double whole() {
    const at::Tensor y = block_->forward(x_, ahead_);
    return milliseconds_of(
        [&] { torch::autograd::backward({y}, {gradient_}); });
  }
  double both() {
    return halves([](double i, double w) { return i + w; });
  }
  double input() {
    return halves([](double i, double) { return i; });
  }
  double weight() {
    return halves([](double, double w) { return w; });
  }

 private:
  template <typename Choose>
  double halves(const Choose& choose) {
    const Tensors outputs{block_->forward(x_, ahead_)};
    SplitBackward backward;
    const double input =
        milliseconds_of([&] { backward.input(outputs, {gradient_}, {x_}); });
    return choose(input, milliseconds_of([&] { backward.weight(); }));
  }

  Block block_;
  const at::Tensor x_;
  const at::Tensor gradient_;
  const at::Tensor ahead_;
};

// The same products on tensors of the same shapes.
class Products {
 public:
  explicit Products(const Size& size)
      : scores_(at::randn({size.batch * size.heads, size.length, size.length})),
        values_(at::randn(
            {size.batch * size.heads, size.length, size.width / size.heads})) {
    const long rows = size.batch * size.length;
    for (const auto& [from, to] :
         std::vector<std::pair<long, long>>{{1, 3}, {1, 1}, {1, 4}, {4, 1}}) {
      linears_.push_back(
          {at::randn({rows, from * size.width}),
           at::randn({rows, to * size.width}),
           at::randn({to * size.width, from * size.width})});
    }
  }

  double input() const {
    return milliseconds_of([&] {
      for (const Linear& each : linears_) {
        at::matmul(each.gradient, each.weight);
      }
      for (int i = 0; i < 2; ++i) { // queries x keys, scores x values
        at::matmul(values_, values_.transpose(1, 2));
      }
      for (int i = 0; i < 2; ++i) {
        at::matmul(scores_.transpose(1, 2), values_);
      }
    });
  }
  double weight() const {
    return milliseconds_of([&] {
      for (const Linear& each : linears_) {
        at::matmul(each.gradient.t(), each.input);
      }
    });
  }

 private:
  struct Linear {
    at::Tensor input;
    at::Tensor gradient;
    at::Tensor weight;
  };

  std::vector<Linear> linears_;
  at::Tensor scores_;
  at::Tensor values_;
};

void add_rows(Report& report, const Size& size, int rounds) {
  BlockBackward block(size);
  const Products products(size);
  const std::string what = std::to_string(size.batch * size.length) +
      " tokens, width " + std::to_string(size.width);
  block.both();
  report.add(race(
      "backward in two halves, " + what,
      "ms",
      Better::Lower,
      rounds,
      {{"ours", [&] { return block.both(); }},
       {"whole backward", [&] { return block.whole(); }},
       {"products alone",
        [&] { return products.input() + products.weight(); }}}));
  report.add(race(
      "half for inputs, " + what,
      "ms",
      Better::Lower,
      rounds,
      {{"ours", [&] { return block.input(); }},
       {"products alone", [&] { return products.input(); }}}));
  report.add(race(
      "half for weights, " + what,
      "ms",
      Better::Lower,
      rounds,
      {{"ours", [&] { return block.weight(); }},
       {"products alone", [&] { return products.weight(); }}}));
}

void run(Flags flags) {
  Report report("pipeline_split", flags);
  const int rounds = flags.quick ? 10 : 30;
  add_rows(report, {2, 64, 128, 4}, 10 * rounds);
  add_rows(report, {4, 256, 512, 8}, rounds);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
