// The strategy's `recompute` on the stages of a pipeline: named modules run
// again in backward, wherever they are, and gradients stay the same bit for
// bit.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "argosy/fleet/fleet.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/pipeline/pipeline_layer.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using ::testing::HasSubstr;

constexpr long kWidth = 16;
constexpr long kRows = 64;
constexpr int kMicrobatches = 2;

// Saves its input and two activations of twice its width. The fewest bytes
// cross a cut between two blocks.
struct DeepBlockImpl : torch::nn::Module {
  torch::nn::Linear up =
      register_module("up", torch::nn::Linear(kWidth, 2 * kWidth));
  torch::nn::Linear down =
      register_module("down", torch::nn::Linear(2 * kWidth, kWidth));

  at::Tensor forward(const at::Tensor& x) {
    return down(torch::dropout(up(x).tanh().sin(), 0.1, is_training()).exp());
  }
};
TORCH_MODULE(DeepBlock);

constexpr int kBlocks = 4;

struct DeepNetImpl : torch::nn::Module {
  torch::nn::ModuleList blocks =
      register_module("blocks", torch::nn::ModuleList());

  DeepNetImpl() {
    for (int i = 0; i < kBlocks; ++i) {
      blocks->push_back(DeepBlock());
    }
    testing::set_weights(*this);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) {
      x = block->as<DeepBlockImpl>()->forward(x);
    }
    return x;
  }
};
TORCH_MODULE(DeepNet);

struct How {
  std::string name;
  int ranks = 2;
  std::string degrees = R"("pp_degree": 2)";
  std::string schedule = "1F1B";
  int chunks = 1;
  std::string more = "{}";
  bool is_cut = false;
};

std::string names_of(bool is_cut, const std::string& which) {
  return R"({"recompute": true, "recompute_configs": {"checkpoints": [")" +
      std::string(is_cut ? R"(blocks\\.)" : "") + which + R"("]}})";
}

// Counts the calls of an op on this thread.
class OpCount {
 public:
  explicit OpCount(std::string op) : op_(std::move(op)) {
    current() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& call)
            -> std::unique_ptr<at::ObserverContext> {
          if (current()->op_ == call.name()) {
            ++current()->count_;
          }
          return nullptr;
        }));
  }
  ~OpCount() { at::removeCallback(handle_); }
  OpCount(const OpCount&) = delete;
  OpCount& operator=(const OpCount&) = delete;

  int count() const { return count_; }

 private:
  static OpCount*& current() {
    thread_local OpCount* count = nullptr;
    return count;
  }

  const std::string op_;
  int count_ = 0;
  at::CallbackHandle handle_ = 0;
};

// What a stage sees of one batch.
struct Seen {
  double loss = 0;
  std::map<std::string, at::Tensor> gradients;
  int tanhs = 0;                 // of forward, first and again
  std::int64_t kept_at_loss = 0; // bytes of activations, at the first loss
};

std::shared_ptr<pipeline::StageModel> make_stage(const How& how, bool dropout) {
  DeepNet net;
  net->to(torch::kDouble);
  net->train(dropout);
  if (how.is_cut) {
    SplitSpec points;
    if (how.chunks == 1) {
      points = {{"blocks.2", SplitPoint::BEGINNING}};
    }
    return std::make_shared<pipeline::CutStage>(
        pipeline::existing(net),
        Tensors{torch::zeros(
            {kRows / kMicrobatches / data_num(), kWidth}, torch::kDouble)},
        pipeline::CutOptions{.chunks = how.chunks, .split_spec = points});
  }
  std::vector<pipeline::LayerDesc> list;
  for (const auto& each : *net->blocks) {
    list.push_back(pipeline::existing(
        DeepBlock(std::dynamic_pointer_cast<DeepBlockImpl>(each))));
  }
  pipeline::PipelineLayerOptions options;
  options.chunks = how.chunks;
  return pipeline::PipelineLayer(list, options).ptr();
}

Seen run_batch(
    const How& how, const std::string& more = "{}", bool dropout = false) {
  auto strategy = DistributedStrategy::from_json(
      R"({"hybrid_configs": {)" + how.degrees +
      R"(}, "pipeline_configs": {"accumulate_steps": 2, "schedule_mode": ")" +
      how.schedule + R"("}})");
  strategy.merge_json(how.more);
  strategy.merge_json(more);
  init(true, strategy);
  const auto stage = make_stage(how, dropout);
  Seen seen;
  TensorMemory memory;
  std::int64_t before = 0;
  auto model = distributed_model(
      stage, {[&](const Tensors& outputs, const Tensors& labels) {
        // At later ones the gradient of the microbatch before may still be
        // on its way, and count.
        if (seen.kept_at_loss == 0) {
          seen.kept_at_loss = memory.current() - before;
        }
        return torch::mse_loss(outputs[0], labels[0]);
      }});
  torch::optim::SGD sgd(model.module().parameters(), 0.1);
  auto optimizer = distributed_optimizer(sgd);
  const at::Tensor x = testing::numbers({kRows, kWidth}, 3)
                           .chunk(data_num())[data_rank()]
                           .contiguous();
  model.forward_backward({x}, {x.sin()}, optimizer); // shapes are told
  optimizer.zero_grad();
  before = memory.current();
  seen.kept_at_loss = 0;
  const OpCount tanhs("aten::tanh");
  at::Tensor loss = model.forward_backward({x}, {x.sin()}, optimizer);
  all_reduce(loss, ReduceOp::AVG);
  seen.loss = loss.item<double>();
  seen.tanhs = tanhs.count();
  for (const auto& item : model.module().named_parameters()) {
    if (item.value().grad().defined()) {
      seen.gradients[item.key()] = item.value().grad().clone();
    }
  }
  return seen;
}

std::vector<How> ways() {
  std::vector<How> all;
  for (const bool is_cut : {false, true}) {
    const std::string kind = is_cut ? "cut_" : "layers_";
    all.push_back({.name = kind + "1f1b", .is_cut = is_cut});
    all.push_back(
        {.name = kind + "zbh1", .schedule = "ZBH1", .is_cut = is_cut});
    all.push_back(
        {.name = kind + "vpp",
         .schedule = "VPP",
         .chunks = 2,
         .is_cut = is_cut});
    all.push_back(
        {.name = kind + "data2",
         .ranks = 4,
         .degrees = R"("pp_degree": 2, "dp_degree": 2)",
         .is_cut = is_cut});
    all.push_back(
        {.name = kind + "file",
         .more = R"({"recompute_configs": {"enable_offload": true}})",
         .is_cut = is_cut});
    // One stage: the same model, without a pipeline around it.
    all.push_back(
        {.name = kind + "alone",
         .ranks = 1,
         .degrees = R"("pp_degree": 1)",
         .schedule = "F-then-B",
         .chunks = is_cut ? 2 : 1,
         .is_cut = is_cut});
  }
  return all;
}

class PipelineRecompute : public ::testing::TestWithParam<How> {};
INSTANTIATE_TEST_SUITE_P(
    Fleet, PipelineRecompute, ::testing::ValuesIn(ways()), [](const auto& of) {
      return of.param.name;
    });

// The model as it is, in one process.
std::map<std::string, at::Tensor> gradients_alone(bool is_cut) {
  DeepNet net;
  net->to(torch::kDouble);
  net->eval();
  const at::Tensor x = testing::numbers({kRows, kWidth}, 3);
  torch::mse_loss(net(x), x.sin()).backward();
  std::map<std::string, at::Tensor> gradients;
  for (const auto& item : net->named_parameters()) {
    gradients[is_cut ? item.key() : item.key().substr(7)] = item.value().grad();
  }
  return gradients;
}

TEST_P(PipelineRecompute, RunsNamedModulesAgainWithEqualGradients) {
  const How& how = GetParam();
  const auto alone = gradients_alone(how.is_cut);
  testing::run_ranks(how.ranks, [&](World&) {
    const Seen once = run_batch(how);
    const Seen again = run_batch(how, names_of(how.is_cut, "[0-9]+"));
    EXPECT_EQ(again.loss, once.loss);
    ASSERT_EQ(again.gradients.size(), once.gradients.size());
    for (const auto& [name, gradient] : once.gradients) {
      EXPECT_TRUE(torch::equal(again.gradients.at(name), gradient)) << name;
      EXPECT_TRUE(torch::allclose(gradient, alone.at(name), 1e-9, 1e-12))
          << name;
    }
    EXPECT_EQ(again.tanhs, 2 * once.tanhs);
    const Seen some = run_batch(how, names_of(how.is_cut, "3"));
    const bool has_last =
        once.gradients.count(
            how.is_cut ? "blocks.3.up.weight" : "3.up.weight") > 0;
    EXPECT_EQ(some.tanhs, once.tanhs + (has_last ? kMicrobatches : 0));
    for (const auto& [name, gradient] : once.gradients) {
      EXPECT_TRUE(torch::equal(some.gradients.at(name), gradient)) << name;
    }
  });
}

// Each rank has the parts of gradients that its shard is of, so whole steps
// are compared.
TEST(PipelineRecomputeSharded, TrainsAlike) {
  for (const bool is_cut : {false, true}) {
    for (const int level : {1, 2, 3}) {
      How how{
          .name = "",
          .ranks = 4,
          .degrees = R"("pp_degree": 2, "sharding_degree": 2)",
          .more = str(R"({"sharding_configs": {"stage": )", level, "}}"),
          .is_cut = is_cut};
      testing::run_ranks(how.ranks, [&](World&) {
        const Seen once = run_batch(how);
        const Seen again = run_batch(how, names_of(is_cut, "[0-9]+"));
        EXPECT_EQ(again.loss, once.loss);
        EXPECT_EQ(again.tanhs, 2 * once.tanhs);
        for (const auto& [name, gradient] : once.gradients) {
          EXPECT_TRUE(torch::equal(again.gradients.at(name), gradient)) << name;
        }
      });
    }
  }
}

TEST(PipelineRecomputeMemory, KeepsOneActivationOfEachBlock) {
  // What a block takes of a microbatch, in doubles.
  constexpr std::int64_t kBytes = 8 * kRows / kMicrobatches * kWidth;
  for (const bool is_cut : {false, true}) {
    testing::run_ranks(2, [&](World& world) {
      const How how{.name = "", .is_cut = is_cut};
      const auto kept = [&](const std::string& more) {
        return run_batch(how, more).kept_at_loss;
      };
      const std::int64_t once = kept("{}");
      const std::int64_t again = kept(names_of(is_cut, "[0-9]+"));
      if (world.rank() == 1) {
        EXPECT_GE(once, 2 * 5 * kBytes);
        // Small tensors of the other rank, a thread, come and go meanwhile.
        constexpr std::int64_t kOthers = 64;
        EXPECT_LE(again, once - 2 * 4 * kBytes + kOthers);
      }
    });
  }
}

// A replay draws the numbers that the first run drew, else the gradients would
// not be those of the loss.
TEST(PipelineRecomputeDropout, DrawsTheSameNumbersAgain) {
  testing::run_ranks(1, [&](World&) {
    for (const bool is_cut : {false, true}) {
      const How how{
          .name = "",
          .degrees = R"("pp_degree": 1)",
          .schedule = "F-then-B",
          .chunks = is_cut ? 2 : 1,
          .is_cut = is_cut};
      const auto run = [&](const std::string& more) {
        // One that replays set back, and that no other thread draws from.
        const RngStatesTracker::Scope draws(at::detail::createCPUGenerator(3));
        return run_batch(how, more, /*dropout=*/true);
      };
      const Seen once = run("{}");
      const Seen again = run(names_of(is_cut, "[0-9]+"));
      EXPECT_EQ(again.loss, once.loss);
      for (const auto& [name, gradient] : once.gradients) {
        EXPECT_TRUE(torch::equal(again.gradients.at(name), gradient)) << name;
      }
    }
  });
}

TEST(PipelineRecomputeNames, MustBeOnSomeStage) {
  testing::run_ranks(2, [](World&) {
    for (const bool is_cut : {false, true}) {
      const How how{.name = "", .is_cut = is_cut};
      EXPECT_THAT(
          testing::refusal([&] { run_batch(how, names_of(is_cut, "9")); }),
          HasSubstr("no stage has a module with parameters that matches"));
    }
  });
}

TEST(PipelineRecomputeNames, ExcludeTheOptionsThatRecomputeAll) {
  testing::run_ranks(1, [](World&) {
    pipeline::PipelineLayerOptions options;
    options.recompute_interval = 1;
    pipeline::PipelineLayer layers(
        std::vector<pipeline::LayerDesc>{pipeline::layer<DeepBlock>()},
        options);
    EXPECT_THAT(
        testing::refusal([&] { layers->recompute_modules({"0"}); }),
        HasSubstr("leave one of the two out"));
    DeepNet net;
    pipeline::CutStage stage(
        pipeline::existing(net),
        Tensors{torch::zeros({2, kWidth}, torch::kDouble)},
        {.recompute = RecomputeOptions{}});
    EXPECT_THAT(
        testing::refusal([&] { stage.recompute_modules({"blocks.0"}); }),
        HasSubstr("leave one of the two out"));
    EXPECT_THAT(
        testing::refusal([&] { RecomputedModules(*net, {"blocks(.0"}); }),
        HasSubstr("is not a regular expression"));
  });
}

} // namespace
} // namespace argosy::fleet
