// A batch in parts that take turns, against the batch as a whole.

#include "argosy/tensor_parallel/multi_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "argosy/comm/flight/black_box.h"
#include "argosy/comm/flight_record.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/deadline.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/observe/session.h"
#include "argosy/observe/span.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/tensor_parallel/turns.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "tests/support/oracle_models.h"

namespace argosy::testing {
namespace {

using examples::ParallelGpt;
using examples::ParallelGptOptions;
using ::testing::HasSubstr;
using Json = nlohmann::json;

ParallelGpt make_gpt(bool sequence_parallel = false) {
  Gpt whole(GptOptions{
      .vocab = 13, .context = 8, .width = 24, .layers = 2, .heads = 12});
  set_weights(*whole);
  ParallelGpt gpt(
      ParallelGptOptions{whole->options, get_group(0), sequence_parallel});
  gpt->to(torch::kDouble);
  tensor_parallel::load_module(*gpt, *whole);
  return gpt;
}

at::Tensor tokens_of(long rows, long seed) {
  return ((numbers({rows, 8}, seed) + 1) * 5000).to(torch::kLong).remainder(13);
}

MicroBatchInterleaved interleaved(
    ParallelGpt gpt, const MicroBatchInterleavedOptions& options) {
  return {
      *gpt,
      [gpt](const Tensors& in) mutable { return gpt->loss(in[0], in[1]); },
      options};
}

Tensors gradients_of(const torch::nn::Module& module) {
  Tensors gradients;
  for (const at::Tensor& each : module.parameters()) {
    gradients.push_back(each.grad().clone());
  }
  return gradients;
}

void expect_close(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-9, 1e-11)) << i;
  }
}

class MultiCopy : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, MultiCopy, ::testing::Values(1, 2, 3));

// 7 rows divide by neither 2 nor 3.
TEST_P(MultiCopy, GivesTheLossAndGradientsOfTheWholeBatch) {
  run_ranks(GetParam(), [](World&) {
    const Tensors batch = {tokens_of(7, 1), tokens_of(7, 2)};
    for (const bool sequence_parallel : {false, true}) {
      ParallelGpt gpt = make_gpt(sequence_parallel);
      const at::Tensor whole = gpt->loss(batch[0], batch[1]);
      whole.backward();
      const Tensors expected = gradients_of(*gpt);
      for (const int parts : {1, 2, 3}) {
        auto copies = interleaved(gpt, {parts, CopyOutputs::Mean});
        for (int repeat = 0; repeat < 3; ++repeat) {
          gpt->zero_grad();
          const at::Tensor loss = copies(batch);
          EXPECT_NEAR(loss.item<double>(), whole.item<double>(), 1e-10);
          loss.backward();
          expect_close(gradients_of(*gpt), expected);
        }
      }
    }
  });
}

TEST_P(MultiCopy, SumsAndConcatenates) {
  run_ranks(GetParam(), [](World&) {
    ColumnParallelLinear layer(ColumnParallelLinearOptions(6, 10));
    layer->to(torch::kDouble);
    const auto net = [&](const Tensors& in) { return layer(in[0]); };
    const at::Tensor x = numbers({5, 6}, 1).requires_grad_();
    const at::Tensor weight = numbers({5, 10}, 2);
    (layer(x) * weight).sum().backward();
    const at::Tensor expected = x.grad().clone();
    const Tensors expected_gradients = gradients_of(*layer);

    MicroBatchInterleaved parts(
        *layer, net, {.outputs = CopyOutputs::Concatenate});
    x.mutable_grad().reset();
    layer->zero_grad();
    const at::Tensor y = parts({x});
    EXPECT_TRUE(torch::allclose(y, layer(x)));
    (y * weight).sum().backward();
    expect_close({x.grad()}, {expected});
    expect_close(gradients_of(*layer), expected_gradients);

    MicroBatchInterleaved sums(
        *layer, [&](const Tensors& in) { return layer(in[0]).pow(2).sum(); });
    x.mutable_grad().reset();
    layer->zero_grad();
    layer(x).pow(2).sum().backward();
    const Tensors of_whole = gradients_of(*layer);
    layer->zero_grad();
    const at::Tensor sum = sums({x});
    EXPECT_TRUE(torch::allclose(sum, layer(x).pow(2).sum()));
    sum.backward();
    expect_close(gradients_of(*layer), of_whole);
    {
      const torch::NoGradGuard no_grad;
      EXPECT_FALSE(sums({x}).requires_grad());
    }
  });
}

// Each part sends as much for its rows as the whole batch would.
TEST(MultiCopyRanks, SendsTheSameBytes) {
  run_ranks(2, [](World&) {
    ParallelGpt gpt = make_gpt();
    const Tensors batch = {tokens_of(6, 1), tokens_of(6, 2)};
    const auto traffic = [&](const std::function<at::Tensor()>& loss) {
      const auto before = get_group(0)->traffic().total();
      loss().backward();
      const auto after = get_group(0)->traffic().total();
      return std::pair(after.calls - before.calls, after.bytes - before.bytes);
    };
    auto copies = interleaved(gpt, {3, CopyOutputs::Mean});
    const auto whole = traffic([&] { return gpt->loss(batch[0], batch[1]); });
    const auto parts = traffic([&] { return copies(batch); });
    EXPECT_EQ(parts.first, 3 * whole.first);
    EXPECT_EQ(parts.second, whole.second);
  });
}

// Hooks and DataParallel see one gradient of each parameter.
TEST(MultiCopyRanks, WorksInsideDataParallel) {
  run_ranks(2, [](World& world) {
    torch::nn::Linear net(4, 3);
    {
      const torch::NoGradGuard no_grad;
      net->to(torch::kDouble);
      net->weight.copy_(numbers({3, 4}, 1));
      net->bias.copy_(numbers({3}, 2));
    }
    DataParallel model(net);
    MicroBatchInterleaved copies(
        *net,
        [&](const Tensors& in) { return model(in[0]).pow(2).mean(); },
        {.outputs = CopyOutputs::Mean});
    const at::Tensor all = numbers({8, 4}, 3);
    copies({all.chunk(2)[world.rank()]}).backward();
    const Tensors got = gradients_of(*net);
    torch::nn::Linear alone(4, 3);
    alone->to(torch::kDouble);
    {
      const torch::NoGradGuard no_grad;
      alone->weight.copy_(net->weight);
      alone->bias.copy_(net->bias);
    }
    alone(all).pow(2).mean().backward();
    expect_close(got, gradients_of(*alone));
  });
}

TEST(MultiCopyRanks, DrawsFromTheCallersStream) {
  run_ranks(2, [](World&) {
    model_parallel_random_seed(3);
    torch::nn::Linear net(4, 4);
    MicroBatchInterleaved copies(
        *net,
        [&](const Tensors& in) { return torch::dropout(in[0], 0.5, true); },
        {.outputs = CopyOutputs::Concatenate});
    const auto scope = rng_states_tracker()->rng_state(kGlobalRng);
    const at::Tensor first = copies({torch::ones({6, 40})});
    model_parallel_random_seed(3);
    const auto again = rng_states_tracker()->rng_state(kGlobalRng);
    EXPECT_TRUE(torch::equal(copies({torch::ones({6, 40})}), first));
  });
}

TEST(MultiCopyRanks, ThrowsWhatAPartThrows) {
  run_ranks(2, [](World&) {
    ColumnParallelLinear layer(ColumnParallelLinearOptions(4, 6));
    MicroBatchInterleaved copies(*layer, [&](const Tensors& in) {
      ARGOSY_CHECK(in[0].size(0) == 2, "[test] {} rows", in[0].size(0));
      return layer(in[0]).sum();
    });
    const auto message_of = [&](const Tensors& in) -> std::string {
      try {
        copies(in);
      } catch (const InvalidArgument& error) {
        return error.what();
      }
      return "";
    };
    EXPECT_THAT(message_of({torch::ones({5, 4})}), HasSubstr("[test] 3 rows"));
    EXPECT_THAT(message_of({torch::ones({1, 4})}), HasSubstr("2 parts"));
    EXPECT_THAT(message_of({}), HasSubstr("no inputs"));
    const at::Tensor loss = copies({torch::ones({4, 4})});
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_THROW(loss.backward(), InvalidArgument) << "a second time";
    EXPECT_THROW(
        MicroBatchInterleaved(*layer, nullptr, {.interleave_num = 0}),
        InvalidArgument);
  });
}

TEST(Turns, GoAround) {
  std::vector<int> order;
  tensor_parallel::Turns turns(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      turns.wait_for(i);
      for (int round = 0; round < 3 - i; ++round) { // the last leaves first
        order.push_back(i);
        turns.pass(i);
      }
      turns.leave(i);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 0, 1, 0}));
}

struct Stretch {
  double begin = 0;
  double end = 0;
};

double common(const Stretch& a, const Stretch& b) {
  return std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

// What one rank computed, and its operations.
struct Trace {
  std::vector<Stretch> computed;
  std::vector<Stretch> operations;
  std::set<int> threads_of_parts;
};

constexpr const char* kCompute = "observed products";

Trace read_trace(const std::filesystem::path& path, int rank) {
  Trace trace;
  std::ifstream file(path);
  const Json whole = Json::parse(file);
  for (const Json& event : whole.at("traceEvents")) {
    if (event["ph"] != "X" || event["pid"] != rank) {
      continue;
    }
    const double begin = event["ts"];
    const Stretch stretch{begin, begin + event["dur"].get<double>()};
    if (event["name"] == "all_reduce") {
      trace.operations.push_back(stretch);
    } else if (event["name"] == kCompute) {
      trace.computed.push_back(stretch);
    } else if (event["name"] == "forward of a part") {
      trace.threads_of_parts.insert(event["tid"].get<int>());
    }
  }
  return trace;
}

// What part of the stretch the operations cover.
double covered(const Stretch& stretch, const std::vector<Stretch>& operations) {
  double sum = 0;
  for (const Stretch& operation : operations) {
    sum += common(stretch, operation);
  }
  return sum / (stretch.end - stretch.begin);
}

// Counts what a rank has computed; another rank waits for a count.
class Computed {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    ARGOSY_CHECK(
        changed_.wait_for(
            lock, std::chrono::seconds(30), [&] { return count_ >= count; }),
        "[test] rank 1 computed {} times while operations waited for rank 0, "
        "expected {}",
        count_,
        count);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

void wait_for_an_operation(World& world) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  const auto runs = [&] {
    const auto record = comm::black_box_of(world)->record();
    return std::ranges::any_of(record.operations, [](const auto& each) {
      return each.state == comm::flight::State::Started;
    });
  };
  while (!runs()) {
    ARGOSY_CHECK(!deadline.expired(), "[test] no operation runs");
    std::this_thread::yield();
  }
}

void products(const at::Tensor& x) {
  for (int i = 0; i < 10; ++i) {
    torch::mm(x, x.t());
  }
}

constexpr int kSteps = 2;
constexpr int kLayers = 4;

// Trains on two ranks, and reads what rank 1 did. Each layer ends with an
// operation. `before(part, layer, x)` runs before a layer.
Trace trace_of_training(
    int parts,
    const std::function<void(World&, int, int, const at::Tensor&)>& before) {
  const TempDir folder;
  const auto path = folder.path() / "trace.json";
  run_ranks(2, [&](World& world) {
    RowParallelLinear layer(
        RowParallelLinearOptions(256, 256).input_is_parallel(true));
    MicroBatchInterleaved copies(
        *layer,
        [&](const Tensors& in) {
          const int part = in[0][0][0].item<int>();
          at::Tensor x = in[0];
          for (int i = 0; i < kLayers; ++i) {
            before(world, part, i, x.detach());
            x = torch::gelu(layer(x).narrow(1, 0, 128)).tanh();
          }
          return x.sum();
        },
        {.interleave_num = parts});
    observe::Session session({.progress = false, .trace = path.string()});
    const at::Tensor numbers_of_parts =
        torch::arange(parts).repeat_interleave(256).unsqueeze(1);
    for (int step = 0; step < kSteps; ++step) {
      copies({numbers_of_parts.to(torch::kFloat).repeat({1, 128})}).backward();
    }
    session.finish();
  });
  const Trace trace = read_trace(path, 1);
  EXPECT_EQ(trace.threads_of_parts.size(), static_cast<std::size_t>(parts));
  EXPECT_EQ(
      trace.operations.size(),
      static_cast<std::size_t>(kSteps * parts * kLayers));
  return trace;
}

// Rank 0 comes to the operations of its first part only after the second part
// of rank 1 has computed beside the same operations there.
TEST(MultiCopyTrace, ShowsOperationsBesideCompute) {
  Computed computed;
  int held = 0; // of rank 0
  const Trace trace = trace_of_training(
      2, [&](World& world, int part, int, const at::Tensor& x) {
        if (world.rank() == 0 && part == 0) {
          computed.wait_for(++held);
        }
        if (world.rank() == 1 && part == 1) {
          wait_for_an_operation(world);
          {
            const observe::Span span(kCompute);
            products(x);
          }
          computed.add();
        }
      });
  EXPECT_EQ(trace.computed.size(), static_cast<std::size_t>(kSteps * kLayers));
  for (const Stretch& each : trace.computed) {
    EXPECT_GT(covered(each, trace.operations), 0.9);
  }
}

// Alone, a part waits for its operation and goes on afterwards.
TEST(MultiCopyTrace, ShowsOperationsOfOnePartAfterItsCompute) {
  const Trace trace =
      trace_of_training(1, [&](World& world, int, int, const at::Tensor& x) {
        if (world.rank() == 1) {
          const observe::Span span(kCompute);
          products(x);
        }
      });
  EXPECT_EQ(trace.computed.size(), static_cast<std::size_t>(kSteps * kLayers));
  for (const Stretch& each : trace.computed) {
    EXPECT_LT(covered(each, trace.operations), 0.1);
  }
}

} // namespace
} // namespace argosy::testing
