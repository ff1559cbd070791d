#include "argosy/expert/overlap.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "argosy/comm/shards.h"
#include "argosy/common/error.h"
#include "argosy/expert/dispatch.h"
#include "argosy/torch_hooks/backward.h"
#include "argosy/torch_hooks/graph_node.h"

// Each chunk has a graph of its own for the experts: leaves that are the rows
// which arrived, and the results. Around it the rows travel by operations that
// this rank starts before it computes another chunk, and waits for afterwards.
// So no thread is needed besides that of the group, and all ranks start the
// operations of a group in the same order.
namespace argosy::expert {

namespace {

using comm::PendingTensor;

struct Chunk {
  comm::ShardRange tokens;
  TokenTravel travel;
  at::Tensor rows;     // a leaf: what the experts got
  at::Tensor results;  // the end of the experts' graph, without values
  at::Tensor returned; // the results, as this rank got them back
};

// Starts each item before the one before it is finished.
template <typename Start, typename Finish>
void pipelined(std::size_t count, const Start& start, const Finish& finish) {
  PendingTensor next = start(0);
  for (std::size_t i = 0; i < count; ++i) {
    const PendingTensor current = std::exchange(next, nullptr);
    if (i + 1 < count) {
      next = start(i + 1);
    }
    finish(i, current());
  }
}

class Overlap {
 public:
  Overlap(OverlapOptions options, const at::Tensor& experts)
      : options_(std::move(options)) {
    int index = 0;
    for (const DispatchPtr& plan :
         plan_chunks(experts, options_.side, options_.chunks)) {
      any_learn_ = any_learn(*plan);
      chunks_.push_back(
          {comm::shard_range(experts.size(0), options_.chunks, index++),
           TokenTravel(plan, /*sync_op=*/false)});
    }
  }

  at::Tensor forward(
      const at::Tensor& tokens, const at::Tensor& weights, bool with_graph) {
    std::vector<PendingTensor> back;
    const auto start = [&](std::size_t i) {
      return chunks_[i].travel.start_dispatch(part(tokens, i));
    };
    pipelined(chunks_.size(), start, [&](std::size_t i, const at::Tensor& in) {
      const at::Tensor results = compute(chunks_[i], in, with_graph);
      back.push_back(chunks_[i].travel.start_return(results));
    });
    Tensors outputs;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      chunks_[i].returned = back[i]();
      outputs.push_back(
          chunks_[i].travel.sums(chunks_[i].returned, part(weights, i)));
    }
    weights_ = weights;
    return at::cat(outputs);
  }

  bool experts_learn() const { return any_learn_; }

  // The gradients of the tokens, the weights and the parameters.
  Tensors backward(const at::Tensor& gradient) {
    Tensors of_weights(chunks_.size());
    std::vector<PendingTensor> back;
    Tensors of_parameters(options_.parameters.size());
    const auto start = [&](std::size_t i) {
      Chunk& chunk = chunks_[i];
      const auto [of_rows, of_weight] = chunk.travel.sums_backward(
          part(gradient, i), chunk.returned, part(weights_, i));
      chunk.returned.reset();
      of_weights[i] = of_weight;
      return chunk.travel.start_gradients(of_rows);
    };
    pipelined(chunks_.size(), start, [&](std::size_t i, const at::Tensor& out) {
      const at::Tensor of_rows = differentiate(chunks_[i], out, of_parameters);
      back.push_back(chunks_[i].travel.start_return(of_rows));
    });
    Tensors of_tokens;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      of_tokens.push_back(chunks_[i].travel.sums(back[i](), {}));
    }
    Tensors all{at::cat(of_tokens), at::cat(of_weights)};
    all.insert(all.end(), of_parameters.begin(), of_parameters.end());
    return all;
  }

 private:
  at::Tensor part(const at::Tensor& whole, std::size_t i) const {
    const comm::ShardRange& range = chunks_[i].tokens;
    return whole.narrow(0, range.begin, range.size);
  }

  at::Tensor compute(Chunk& chunk, const at::Tensor& rows, bool with_graph) {
    // Within a node of the caller's graph grad mode is off.
    const at::AutoGradMode mode(with_graph);
    chunk.rows = rows.detach().requires_grad_(with_graph);
    const at::Tensor results =
        options_.run(chunk.rows, chunk.travel.expert_rows());
    if (results.requires_grad()) {
      chunk.results = torch_hooks::without_values(results);
    }
    return results.detach();
  }

  // Adds to the gradients of the parameters; returns that of the rows.
  at::Tensor differentiate(
      Chunk& chunk, const at::Tensor& gradient, Tensors& of_parameters) {
    const at::Tensor rows = std::exchange(chunk.rows, {});
    const at::Tensor results = std::exchange(chunk.results, {});
    if (!results.defined()) { // they do not depend on anything that learns
      return at::zeros_like(rows);
    }
    Tensors leaves{rows};
    leaves.insert(
        leaves.end(), options_.parameters.begin(), options_.parameters.end());
    const Tensors all = torch::autograd::grad(
        {results},
        leaves,
        {gradient},
        /*retain_graph=*/false,
        /*create_graph=*/false,
        /*allow_unused=*/true);
    for (std::size_t i = 0; i < of_parameters.size(); ++i) {
      at::Tensor& sum = of_parameters[i];
      if (all[i + 1].defined()) {
        sum = sum.defined() ? sum + all[i + 1] : all[i + 1];
      }
    }
    return all[0].defined() ? all[0] : at::zeros_like(rows);
  }

  const OverlapOptions options_;
  std::vector<Chunk> chunks_;
  bool any_learn_ = false;
  at::Tensor weights_;
};

} // namespace

at::Tensor overlapped_experts(
    const at::Tensor& tokens,
    const Routing& routing,
    const OverlapOptions& options) {
  OverlapOptions trained = options;
  std::erase_if(trained.parameters, [](const at::Tensor& each) {
    return !each.requires_grad();
  });
  Tensors inputs{tokens, weights_for(tokens.scalar_type(), routing.weights)};
  inputs.insert(
      inputs.end(), trained.parameters.begin(), trained.parameters.end());
  const bool with_graph = at::GradMode::is_enabled();
  auto overlap = std::make_shared<Overlap>(trained, routing.experts);
  if (overlap->experts_learn()) {
    // Makes this a node of the graph although nothing of this rank may learn:
    // others wait for its gradients.
    inputs.push_back(at::empty({0}, tokens.options()).requires_grad_());
  }
  return torch_hooks::apply(
      inputs,
      [&](const Tensors& in) {
        return Tensors{overlap->forward(in[0], in[1], with_graph)};
      },
      [kept = std::make_shared<std::shared_ptr<Overlap>>(overlap),
       count = inputs.size()](const Tensors& gradients) {
        ARGOSY_CHECK(
            !at::GradMode::is_enabled(),
            "[expert.moe] overlapped experts have no second derivative");
        ARGOSY_CHECK(
            *kept != nullptr,
            "[expert.moe] backward of overlapped experts was called twice, "
            "expected once");
        // Frees the graphs of the chunks when this backward ends.
        const auto once = std::exchange(*kept, nullptr);
        Tensors all = once->backward(gradients[0].contiguous());
        all.resize(count);
        return all;
      })[0];
}

} // namespace argosy::expert
