// A rank of bench/moe: does what lines on standard input say, and answers each
// with one line.
//
//   load layer 8 2048 2   makes a layer of 8 experts with 2048 hidden features,
//                         of which a token uses 2, and takes three steps; the
//                         answer is their losses. With overlap in place of
//                         layer: the same in chunks of tokens that travel while
//                         others are computed. With products: the matrix
//                         products of the rows that this rank's experts get,
//                         and nothing else
//   run 5                 takes five steps; answers the seconds they took, and
//                         those of dispatch and combine among them

#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <utility>

#include "argosy/argosy.h"
#include "argosy/expert/moe_layer.h"
#include "argosy/expert/routing.h"
#include "argosy/observe/world_observer.h"
#include "bench/hashed.h"
#include "bench/training_server.h"

namespace argosy::bench {
namespace {

constexpr long kTokens = 1024; // of a rank
constexpr long kWidth = 512;
constexpr int kChunks = 2; // of the layer with overlap

struct Size {
  long experts = 0;
  long hidden = 0;
  long top_k = 0;
};

// The same in moe.py. Experts by their number.
void set_layer(MoELayer& layer, const Size& size) {
  const torch::NoGradGuard no_grad;
  auto& experts = *layer->grouped;
  const long n = experts.weight1.size(0);
  set_weights(layer->gate->weight, 1, 0.05);
  layer->gate->bias.zero_();
  for (long i = 0; i < n; ++i) {
    const long e = get_rank() * n + i;
    const auto bound = [](long inputs) {
      return 1 / std::sqrt(static_cast<double>(inputs));
    };
    set_weights(experts.weight1[i], 100 + e, bound(kWidth));
    set_weights(experts.weight2[i], 500 + e, bound(size.hidden));
  }
  experts.bias1.zero_();
  experts.bias2.zero_();
}

// Adds up the time of what has to do with experts.
class TravelTime final : public observe::Sink {
 public:
  bool wants(observe::Interest interest) const override {
    return interest == observe::Interest::Spans;
  }

  void on_span(const observe::SpanEvent& span) override {
    if (span.name.find("experts") != std::string_view::npos) {
      total_ns_ += span.end_ns - span.begin_ns;
    }
  }

  double take_seconds() {
    return static_cast<double>(std::exchange(total_ns_, 0)) * 1e-9;
  }

 private:
  std::int64_t total_ns_ = 0;
};

class MoETraining : public Training {
 public:
  MoETraining(const Size& size, const GroupPtr& group, int chunks = 1)
      : layer_(MoELayerOptions(kWidth, size.experts)
                   .hidden(size.hidden)
                   .overlap_chunks(chunks)
                   .group(group)
                   .gate(DroplessGate(GateOptions(kWidth, size.experts)
                                          .top_k(size.top_k)
                                          .group(group))
                             .ptr())),
        x_(uniform({kTokens, kWidth}, 1000 + get_rank()).requires_grad_()) {
    set_layer(layer_, size);
    observe::current_observer()->add(travel_);
  }

  ~MoETraining() override { observe::current_observer()->remove(*travel_); }

  double step() override {
    x_.mutable_grad().reset();
    for (const at::Tensor& each : layer_->parameters()) {
      each.mutable_grad().reset();
    }
    const at::Tensor loss = layer_(x_).pow(2).sum() / x_.numel();
    loss.backward();
    return loss.item<double>();
  }

  void print_more(std::ostream& out) override {
    out << " " << travel_->take_seconds();
  }

 protected:
  // How many rows each local expert gets.
  std::vector<std::int64_t> rows() {
    const at::NoGradGuard no_grad;
    const at::Tensor counts = expert::exchange_counts(
        expert::number_count(
            layer_->gate->forward(x_).experts, layer_->options.num_experts()),
        layer_->options.group());
    const at::Tensor sums = counts.view({get_world_size(), -1}).sum(0);
    const auto* data = sums.data_ptr<std::int64_t>();
    return {data, data + sums.numel()};
  }

  MoELayer layer_;
  const at::Tensor x_;

 private:
  const std::shared_ptr<TravelTime> travel_ = std::make_shared<TravelTime>();
};

class ProductTraining final : public MoETraining {
 public:
  ProductTraining(const Size& size, const GroupPtr& group)
      : MoETraining(size, group), rows_(rows()) {}

  double step() override {
    const at::NoGradGuard no_grad;
    const auto& experts = *layer_->grouped;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto e = static_cast<long>(i);
      const at::Tensor x = torch::ones({rows_[i], kWidth});
      const at::Tensor hidden = torch::mm(x, experts.weight1[e]);
      const at::Tensor y = torch::mm(hidden, experts.weight2[e]);
      torch::mm(hidden.t(), y);
      const at::Tensor back = torch::mm(y, experts.weight2[e].t());
      torch::mm(x.t(), back);
      torch::mm(back, experts.weight1[e].t());
    }
    return 0;
  }

 private:
  const std::vector<std::int64_t> rows_;
};

std::unique_ptr<Training> load(const GroupPtr& group) {
  std::string kind;
  Size size;
  std::cin >> kind >> size.experts >> size.hidden >> size.top_k;
  if (kind == "layer" || kind == "overlap") {
    return std::make_unique<MoETraining>(
        size, group, kind == "overlap" ? kChunks : 1);
  }
  return std::make_unique<ProductTraining>(size, group);
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::bench::serve_as_rank(
      argosy::bench::load, argc > 1 ? argv[1] : "auto");
}
