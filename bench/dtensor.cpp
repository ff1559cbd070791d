// The overhead of ops on DTensors over plain tensors, with cached decisions and
// no communication, on tensors of few elements.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "argosy/argosy.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/optim/adam.h"
#include "argosy/testing/ranks.h"
#include "bench/harness.h"
#include "examples/02_gpt/gpt.h"

namespace argosy::bench {
namespace {

using Function = std::function<void(const Tensors&)>;

struct Case {
  const char* what;
  Function op;
};

// Microseconds per call.
double time_of(const Function& op, const Tensors& inputs, int calls) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < std::min(calls, 20); ++i) {
    op(inputs);
  }
  const auto began = Clock::now();
  for (int i = 0; i < calls; ++i) {
    op(inputs);
  }
  const std::chrono::duration<double, std::micro> passed = Clock::now() - began;
  return passed.count() / calls;
}

std::vector<Case> cases() {
  return {
      {"add", [](const Tensors& x) { x[0] + x[1]; }},
      {"mul by a number", [](const Tensors& x) { x[0] * 2; }},
      {"gelu", [](const Tensors& x) { torch::gelu(x[0]); }},
      {"add in place", [](const Tensors& x) { x[0].add_(x[1], 0.5); }},
      {"sum of a dim", [](const Tensors& x) { x[0].sum(1); }},
      {"view", [](const Tensors& x) { x[0].view({64}); }},
      {"transpose", [](const Tensors& x) { x[0].t(); }},
      {"mm", [](const Tensors& x) { x[0].mm(x[2]); }},
      {"linear", [](const Tensors& x) { torch::linear(x[0], x[2], x[3]); }},
      {"linear, gelu, sum, with backward", [](const Tensors& x) {
         torch::gelu(torch::linear(x[0], x[4], x[3])).sum().backward();
         x[4].mutable_grad().reset();
       }}};
}

Tensors inputs() {
  const at::Tensor weight = torch::rand({8, 8});
  return {
      torch::rand({8, 8}),
      torch::rand({8, 8}),
      torch::rand({8, 8}),
      torch::rand({8}),
      weight.clone().requires_grad_()};
}

Tensors sharded_inputs() {
  const ProcessMesh mesh = ProcessMesh::of_shape({2});
  Tensors sharded;
  for (const at::Tensor& each : inputs()) {
    const bool is_data = sharded.size() < 2;
    sharded.push_back(shard_tensor(
        each, mesh, is_data ? Placements{Shard(0)} : Placements{Replicate()}));
  }
  return sharded;
}

void measure(Report& report, int calls, int rounds) {
  const Tensors plain = inputs();
  const Tensors sharded = sharded_inputs();
  for (const Case& each : cases()) {
    Row row = race(
        each.what,
        "us",
        Better::Lower,
        rounds,
        {{"ours", [&] { return time_of(each.op, sharded, calls); }},
         {"plain", [&] { return time_of(each.op, plain, calls); }}});
    row.extra["over_plain_us"] = row.ours - row.peers["plain"];
    report.add(std::move(row));
  }
}

// Forward and backward of a GPT block on few tokens: mostly the overhead of its
// ops.
struct GptStep {
  Block block{GptOptions{.width = 16, .heads = 2}};
  at::Tensor x = torch::rand({2, 4, 16});
  at::Tensor ahead = torch::ones({4, 4}, torch::kBool).triu(1);

  void run() {
    block->forward(x, ahead).sum().backward();
    for (const at::Tensor& each : block->parameters()) {
      each.mutable_grad().reset();
    }
  }
};

// Data parallel: nothing is sent before an optimizer needs the gradients.
void measure_block(Report& report, int calls, int rounds) {
  const ProcessMesh mesh = ProcessMesh::of_shape({2});
  GptStep plain;
  GptStep sharded;
  shard_layer(*sharded.block, mesh);
  sharded.x = shard_tensor(sharded.x, mesh, {Shard(0)});
  const auto before = dtensor::OpScope::count();
  sharded.run();
  const auto ops = dtensor::OpScope::count() - before;
  const auto step = [calls](GptStep& of) {
    return time_of([&of](const Tensors&) { of.run(); }, {}, calls);
  };
  Row row = race(
      argosy::str("GPT block with backward, ", ops, " ops"),
      "us",
      Better::Lower,
      rounds,
      {{"ours", [&] { return step(sharded); }},
       {"plain", [&] { return step(plain); }}});
  row.extra["ops"] = static_cast<double>(ops);
  row.extra["over_plain_us_per_op"] =
      (row.ours - row.peers["plain"]) / static_cast<double>(ops);
  report.add(std::move(row));
}

// Trains a GPT of 3.3 million parameters on 2 ranks.
class Training {
 public:
  explicit Training(int level)
      : adam_(gpt_->parameters()),
        optimizer_(parallelize(
            *gpt_,
            adam_,
            mesh_,
            {.dp_config = ParallelizeConfig::Dp{.sharding_level = level}})) {}

  // Milliseconds per step.
  double step() {
    barrier();
    return time_of(
               [this](const Tensors&) {
                 const at::Tensor scores = gpt_->forward(text_);
                 torch::cross_entropy_loss(
                     scores.view({-1, scores.size(-1)}), text_.view({-1}))
                     .backward();
                 optimizer_.step();
                 optimizer_.zero_grad();
               },
               {},
               2) /
        1000;
  }

 private:
  ProcessMesh mesh_ = ProcessMesh::of_shape({2}, {"dp"});
  Gpt gpt_{GptOptions{.width = 256}};
  optim::AdamW adam_;
  ShardOptimizer optimizer_;
  at::Tensor text_ = shard_tensor(
      torch::arange(8 * 64).remainder(251).view({8, 64}), mesh_, {Shard(0)});
};

// The cost of gathering parameters; all ranks step.
Row measure_stages(int rounds) {
  Training replicated(0);
  Training states(1);
  Training all(3);
  return race(
      "GPT step, all sharded (stage 3)",
      "ms",
      Better::Lower,
      rounds,
      {{"ours", [&] { return all.step(); }},
       {"replicated", [&] { return replicated.step(); }},
       {"stage 1", [&] { return states.step(); }}});
}

void run(Flags flags) {
  Report report("dtensor", flags);
  at::set_num_threads(1);
  testing::run_ranks(
      2,
      [&](World& world) {
        dtensor_check_values(0); // what the first uses of a value send
        if (world.rank() == 0) { // one rank suffices: nothing is sent
          measure(report, 2000, flags.quick ? 5 : 20);
          measure_block(report, 100, flags.quick ? 5 : 20);
        }
        barrier();
        const Row stages = measure_stages(flags.quick ? 5 : 20);
        if (world.rank() == 0) {
          report.add(stages);
        }
        barrier();
      },
      std::chrono::minutes(5));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
