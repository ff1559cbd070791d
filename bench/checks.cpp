// What watching over a job costs while nothing is wrong: labels and records of
// operations, notices of hangs, comparisons of values, lists of ops for
// autocast. Each beside the same without it, on 2 thread ranks.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include "argosy/argosy.h"
#include "argosy/comm/backend/backend.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/layout.h"
#include "argosy/comm/memory/wait.h"
#include "argosy/comm/operation/label.h"
#include "argosy/comm/traffic.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/autocast.h"
#include "argosy/testing/ranks.h"
#include "bench/harness.h"
#include "bench/hashed.h"
#include "examples/02_gpt/gpt.h"

namespace argosy::bench {
namespace {

constexpr int kRanks = 2;
constexpr int kOperations = 5000; // in one measurement
constexpr int kSteps = 10;
constexpr long kFloats = 256; // 1 KB

struct Effort {
  int rounds = 0;
  int steps = kSteps;
};

// Microseconds per call, the same calls on all ranks.
double time_of(int calls, const std::function<void()>& call) {
  call();
  barrier();
  return milliseconds_of([&] {
           for (int i = 0; i < calls; ++i) {
             call();
           }
         }) *
      1000 / calls;
}

// `body` returns a row on each rank; they take the measurements together.
Row on_ranks(const std::function<Row()>& body) {
  Row first;
  testing::run_ranks(
      kRanks,
      [&](World& world) {
        const Row row = body();
        if (world.rank() == 0) {
          first = row;
        }
        barrier();
      },
      std::chrono::minutes(5));
  return first;
}

// An operation as users issue it, and the backend's alone, which is neither
// recorded nor counted.
Row measure_operations(const Effort& effort) {
  static const OpLabel label("an operation of the bench");
  at::Tensor data = torch::ones({kFloats});
  const auto issue = [&] { all_reduce(data, comm::ReduceOp::MAX); };
  const auto labelled = [&] {
    const LabelScope scope(label);
    issue();
  };
  const auto direct = [&](comm::Backend& backend, Deadline deadline) {
    auto* values = data.data_ptr<float>();
    const comm::Reduction most{comm::DType::Float32, comm::ReduceOp::MAX};
    for (int i = 0; i < kOperations; ++i) {
      backend.all_reduce(values, values, kFloats, most, deadline);
    }
  };
  return race(
      "all_reduce of 1 KB, with a label",
      "us",
      Better::Lower,
      effort.rounds,
      {{"ours", [&] { return time_of(kOperations, labelled); }},
       {"no label", [&] { return time_of(kOperations, issue); }},
       {"backend", [&] {
          barrier();
          return milliseconds_of([&] { get_group()->run("bench", direct); }) *
              1000 / kOperations;
        }}});
}

// In a world of its own: the limit is read when the world is made.
double time_with_notice(const char* limit) {
  ::setenv("ARGOSY_HANG_WARNING", limit, 1);
  double time = 0;
  on_ranks([&] {
    at::Tensor data = torch::ones({kFloats});
    const double each = time_of(
        kOperations * 4, [&] { all_reduce(data, comm::ReduceOp::MAX); });
    if (get_rank() == 0) {
      time = each;
    }
    return Row{};
  });
  ::unsetenv("ARGOSY_HANG_WARNING");
  return time;
}

Row measure_notice(const Effort& effort) {
  return race(
      "all_reduce of 1 KB, with notices of hangs",
      "us",
      Better::Lower,
      effort.rounds,
      {{"ours", [] { return time_with_notice("60s"); }},
       {"no notices", [] { return time_with_notice("0"); }}});
}

// A wait for what has happened already: how each wait begins.
Row measure_wait(const Effort& effort) {
  constexpr int kWaits = 1'000'000;
  comm::memory::Signal signal;
  signal.value = 1;
  const comm::memory::WaitPolicy policy;
  const std::function<bool()> hopeless = [] { return false; };
  const auto nanoseconds = [](const std::function<void()>& all) {
    return milliseconds_of(all) * 1e6 / kWaits;
  };
  const auto wait = [&] {
    const Deadline deadline = Deadline::after(std::chrono::seconds(60));
    for (int i = 0; i < kWaits; ++i) {
      comm::memory::wait_for(signal, 1, policy, hopeless, deadline);
    }
  };
  std::uint32_t seen = 0;
  const auto load = [&] {
    for (int i = 0; i < kWaits; ++i) {
      seen += signal.value.load(std::memory_order_acquire);
    }
  };
  Row row = race(
      "wait for a value that is there",
      "ns",
      Better::Lower,
      effort.rounds,
      {{"ours", [&] { return nanoseconds(wait); }},
       {"load", [&] { return nanoseconds(load); }}});
  row.extra["seen"] = seen;
  return row;
}

at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& text) {
  return torch::cross_entropy_loss(
      scores.view({-1, scores.size(-1)}), text.view({-1}));
}

// The same on all ranks.
Gpt make_gpt() {
  Gpt gpt{GptOptions{}};
  set_weights(*gpt);
  return gpt;
}

at::Tensor make_text() {
  return torch::arange(8 * 64).remainder(251).view({8, 64});
}

// A data parallel training, and how many operations a step issues.
class DataParallelStep {
 public:
  void run() {
    model_.zero_grad();
    loss_of(model_(text_), text_).backward();
    adam_.step();
  }

  double operations() {
    const auto before = get_group()->traffic().total().calls;
    run();
    return static_cast<double>(get_group()->traffic().total().calls - before);
  }

 private:
  Gpt gpt_ = make_gpt();
  DataParallel<Gpt> model_{gpt_};
  optim::Adam adam_{gpt_->parameters()};
  at::Tensor text_ = make_text();
};

// From the cost of a label and the number of operations: two trainings would
// differ by more than that.
Row measure_labels(const Effort& effort, const Row& operation) {
  DataParallelStep training;
  Row row = race(
      "labels of a data parallel step, GPT of 0.8 M",
      "% of the step",
      Better::Lower,
      effort.rounds,
      {{"ours",
        [&] { return time_of(effort.steps, [&] { training.run(); }); }}});
  const double step = row.ours;
  const double label = operation.ours - operation.peers.at("no label");
  const double operations = training.operations();
  row.ours = 100 * std::max(label, 0.0) * operations / step;
  row.extra["operations"] = operations;
  row.extra["label_us"] = label;
  row.extra["step_us"] = step;
  return row;
}

// A data parallel training of DTensors that is given plain batches, which count
// as the same on all ranks.
class MeshStep {
 public:
  void run() {
    const at::Tensor text = shard_tensor(make_text(), mesh_, {Shard(0)});
    loss_of(gpt_->forward(text), text).backward();
    optimizer_.step();
    optimizer_.zero_grad();
  }

 private:
  ProcessMesh mesh_ = ProcessMesh::of_shape({kRanks}, {"dp"});
  Gpt gpt_ = make_gpt();
  optim::AdamW adam_{gpt_->parameters()};
  ShardOptimizer optimizer_{
      parallelize(*gpt_, adam_, mesh_, {.dp_config = ParallelizeConfig::Dp{}})};
};

// `times`: dtensor_check_values(). Milliseconds.
double time_checked(const Effort& effort, MeshStep& training, int times) {
  dtensor_check_values(times);
  for (int i = 0; i < 3; ++i) { // the default compares these
    training.run();
  }
  return time_of(effort.steps, [&] { training.run(); }) / 1000;
}

Row measure_values(const Effort& effort, const char* what, int times) {
  MeshStep training;
  return race(
      what,
      "ms",
      Better::Lower,
      effort.rounds,
      {{"ours", [&] { return time_checked(effort, training, times); }},
       {"no checks", [&] { return time_checked(effort, training, 0); }}});
}

// One rank suffices.
Row measure_lists(const Effort& effort) {
  Gpt gpt = make_gpt();
  const at::Tensor text = make_text();
  const optim::AutoCastLists lists({}, {"softmax", "layer_norm", "gelu"});
  const auto step = [&](const optim::AutoCastLists& of) {
    at::Tensor loss;
    {
      const optim::AutoCast cast(true, c10::kBFloat16, of);
      loss = loss_of(gpt->forward(text), text);
    }
    loss.backward();
  };
  const auto time = [&](const optim::AutoCastLists& of) {
    step(of);
    return milliseconds_of([&] {
             for (int i = 0; i < effort.steps; ++i) {
               step(of);
             }
           }) /
        effort.steps;
  };
  return race(
      "GPT under AutoCast, with lists of ops",
      "ms",
      Better::Lower,
      effort.rounds,
      {{"ours", [&] { return time(lists); }},
       {"no lists", [&] { return time({}); }}});
}

void run(Flags flags) {
  Report report("checks", flags);
  at::set_num_threads(1);
  const Effort effort{.rounds = flags.quick ? 5 : 20};
  const Row operation = on_ranks([&] { return measure_operations(effort); });
  report.add(operation);
  report.add(measure_notice(effort));
  report.add(measure_wait(effort));
  report.add(on_ranks([&] { return measure_labels(effort, operation); }));
  report.add(on_ranks([&] {
    return measure_values(
        effort, "GPT step on a mesh, values compared in each step", 1 << 30);
  }));
  report.add(on_ranks([&] {
    return measure_values(
        effort, "GPT step on a mesh, after the first 3 steps", 3);
  }));
  report.add(measure_lists(effort));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
