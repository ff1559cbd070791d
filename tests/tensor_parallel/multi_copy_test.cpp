// A batch in parts that take turns, against the batch as a whole.

#include "argosy/tensor_parallel/multi_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
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

// Spans of a name by thread, and operations, of one rank.
struct Trace {
  std::map<std::string, std::map<int, std::vector<Stretch>>> spans;
  std::vector<Stretch> operations;
};

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
    } else {
      trace.spans[event["name"]][event["tid"]].push_back(stretch);
    }
  }
  return trace;
}

// For how long some part computed during the operation.
double computed_during(Trace& trace, const Stretch& operation) {
  double sum = 0;
  for (const char* name : {"forward of a part", "backward of a part"}) {
    for (const auto& [thread, parts] : trace.spans[name]) {
      for (const Stretch& part : parts) {
        sum += common(part, operation);
      }
      for (const char* idle : {"turn of others", "wait for an operation"}) {
        for (const Stretch& each : trace.spans[idle][thread]) {
          for (const Stretch& part : parts) {
            const Stretch both{
                std::max(part.begin, each.begin), std::min(part.end, each.end)};
            sum -= common(both, operation);
          }
        }
      }
    }
  }
  return sum;
}

// The operations of a rank, and what part of their time its parts computed.
struct Beside {
  std::size_t operations = 0;
  double share = 0;
};

Beside trace_of_training(int parts) {
  const auto path =
      std::filesystem::path(::testing::TempDir()) / "multi_copy_trace.json";
  run_ranks(2, [&](World&) {
    RowParallelLinear layer(
        RowParallelLinearOptions(256, 256).input_is_parallel(true));
    MicroBatchInterleaved copies(
        *layer,
        [&](const Tensors& in) {
          at::Tensor x = in[0];
          for (int i = 0; i < 4; ++i) {
            x = torch::gelu(layer(x).narrow(1, 0, 128)).tanh();
          }
          return x.sum();
        },
        {.interleave_num = parts});
    observe::Session session({.progress = false, .trace = path.string()});
    for (int step = 0; step < 2; ++step) {
      copies({torch::ones({2 * 1024, 128})}).backward();
    }
    session.finish();
  });
  Trace trace = read_trace(path, 1);
  std::filesystem::remove(path);
  EXPECT_EQ(
      trace.spans["forward of a part"].size(), static_cast<std::size_t>(parts));
  double computed = 0;
  double all = 0;
  for (const Stretch& operation : trace.operations) {
    computed += computed_during(trace, operation);
    all += operation.end - operation.begin;
  }
  return {trace.operations.size(), computed / all};
}

// How much it is depends on what else the machine does. Without parts, only
// the moments between issuing an operation and waiting for it count.
TEST(MultiCopyTrace, ShowsOperationsBesideCompute) {
  const Beside alone = trace_of_training(1);
  const Beside two = trace_of_training(2);
  EXPECT_EQ(alone.operations, 2u * 4);
  EXPECT_EQ(two.operations, 2u * 2 * 4);
  EXPECT_GT(two.share, alone.share + 0.1) << alone.share;
}

} // namespace
} // namespace argosy::testing
