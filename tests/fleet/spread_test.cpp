// Models that parallelize() has spread over the mesh of a strategy, trained
// with the strategy's switches, against one process with the whole batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/fleet/fleet.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/autocast.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/recomputation/recompute.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/semi_auto/shard_optimizer.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using ::testing::HasSubstr;

constexpr int kBatches = 6;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear up = register_module("up", torch::nn::Linear(8, 12));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(12, 8));
  torch::nn::LayerNorm norm = register_module(
      "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 4));
  bool recomputes = false;
  c10::ScalarType hidden = torch::kDouble; // of the last forward

  NetImpl() {
    const torch::NoGradGuard no_grad;
    int index = 0;
    for (at::Tensor& each : parameters()) {
      const at::Tensor numbers =
          torch::arange(each.numel()) * 37 + 11 * ++index;
      each.copy_((numbers % 23 - 11).reshape(each.sizes()) / 20.0);
    }
  }

  at::Tensor block(const at::Tensor& x) {
    const at::Tensor inner = up(x);
    hidden = inner.scalar_type();
    return x + down(torch::gelu(inner));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = recomputes
        ? recompute([this](const at::Tensor& in) { return block(in); }, x)
        : block(x);
    return head(norm(y));
  }
};
TORCH_MODULE(Net);

at::Tensor inputs(int batch) {
  return ((torch::arange(64) * 29 + 7 * batch) % 19 - 9).reshape({8, 8}) / 10.0;
}

at::Tensor labels(int batch) {
  return (torch::arange(8) * 5 + batch) % 4;
}

at::Tensor loss_of(const at::Tensor& y, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(y, target);
}

const ParallelizeConfig kPlan{
    .mp_config = ParallelizeConfig::Mp{
        {{"up", ColWiseParallel()}, {"down", RowWiseParallel()}}}};

using Parameters = std::map<std::string, at::Tensor>;

Parameters whole(const torch::nn::Module& module) {
  Parameters all;
  for (const auto& each : module.named_parameters()) {
    all[each.key()] = full_tensor(each.value().detach()).clone();
  }
  return all;
}

void expect_close(
    const Parameters& got, const Parameters& expected, double tolerance) {
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(torch::allclose(
        got.at(name).to(value.scalar_type()), value, tolerance, tolerance))
        << name << "\n"
        << got.at(name) << "\n"
        << value;
  }
}

at::Tensor own_rows(const at::Tensor& batch) {
  return batch.chunk(data_num())[data_rank()];
}

template <typename Optimizer = optim::AdamW>
Parameters train(
    const std::string& json,
    c10::ScalarType type = torch::kDouble,
    const std::function<void(NetImpl&)>& check = nullptr,
    bool recomputes = false) {
  init(true, DistributedStrategy::from_json(json));
  Net net;
  net->to(type);
  net->recomputes = recomputes;
  parallelize(*net, hybrid_mesh()->mesh(), kPlan);
  Optimizer inner(net->parameters(), 1e-2);
  auto model = distributed_model(net);
  auto optimizer = distributed_optimizer(inner);
  for (int batch = 0; batch < kBatches; ++batch) {
    optimizer.zero_grad();
    // As the first layer has it: LibTorch normalizes no mixed types.
    const at::Tensor x =
        own_rows(inputs(batch)).to(net->up->weight.scalar_type());
    const at::Tensor y = model(x);
    EXPECT_FALSE(is_dtensor(y));
    EXPECT_EQ(y.size(0), 8 / data_num());
    optimizer.minimize(loss_of(y, own_rows(labels(batch))));
  }
  if (check) {
    check(*net);
  }
  if (optimizer.ema() != nullptr) {
    optimizer.ema()->apply();
  }
  return whole(*net);
}

struct Alone {
  int merge = 1;
  double clip_norm = 0;
  double clip_value = 0;
  double ema = 0;
  bool amp = false;
};

template <
    typename Optimizer = torch::optim::AdamW,
    typename Options = torch::optim::AdamWOptions>
Parameters train_alone(
    const Alone& how,
    c10::ScalarType type = torch::kDouble,
    const Options& options = Options(1e-2)) {
  Net net;
  net->to(type);
  Optimizer optimizer(net->parameters(), options);
  std::optional<optim::Ema> ema;
  if (how.ema > 0) {
    ema.emplace(net->parameters(), optim::EmaOptions{.decay = how.ema});
  }
  for (int batch = 0; batch < kBatches; ++batch) {
    at::Tensor y;
    {
      const optim::AutoCast cast(how.amp);
      y = net(inputs(batch).to(type));
    }
    const at::Tensor loss = loss_of(y.to(type), labels(batch));
    (loss / how.merge).backward();
    if ((batch + 1) % how.merge != 0) {
      continue;
    }
    if (how.clip_norm > 0) {
      optim::clip_grad_norm_(net->parameters(), how.clip_norm);
    }
    if (how.clip_value > 0) {
      optim::clip_grad_value_(net->parameters(), how.clip_value);
    }
    optimizer.step();
    optimizer.zero_grad();
    if (ema) {
      ema->update();
    }
  }
  if (ema) {
    ema->apply();
  }
  return whole(*net);
}

const std::string kAxes =
    R"("hybrid_configs": {"dp_degree": 2, "mp_degree": 2})";
// Sharding and tensor parallelism, with a clipped norm over both.
std::string sharded(int stage) {
  return str_format(
      R"({"hybrid_configs": {"sharding_degree": 2, "mp_degree": 2}, )"
      R"("sharding_configs": {"stage": {}}, "grad_clip": true, )"
      R"("grad_clip_configs": {"limit": 0.1}})",
      stage);
}

TEST(SpreadMesh, HasTheAxesOfTheStrategy) {
  testing::run_ranks(4, [](World& world) {
    const auto mesh_of = [](const std::string& json) {
      init(true, DistributedStrategy::from_json(json));
      return hybrid_mesh()->mesh();
    };
    const ProcessMesh square = mesh_of("{" + kAxes + "}");
    EXPECT_EQ(square.dim_names(), (ProcessMesh::Names{"dp", "mp"}));
    EXPECT_EQ(square, ProcessMesh::of_shape({2, 2}));
    const ProcessMesh all = mesh_of("{}");
    EXPECT_EQ(all.dim_names(), (ProcessMesh::Names{"dp", "mp"}));
    EXPECT_EQ(all, ProcessMesh::of_shape({4, 1}));
    const ProcessMesh three = mesh_of(
        R"({"hybrid_configs": {"sharding_degree": 2, "mp_degree": 2}})");
    EXPECT_EQ(three.dim_names(), (ProcessMesh::Names{"dp", "sharding", "mp"}));
    const ProcessMesh stage =
        mesh_of(R"({"hybrid_configs": {"pp_degree": 2, "mp_degree": 2}})");
    EXPECT_EQ(
        stage,
        ProcessMesh(
            {1, 2},
            world.rank() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3},
            {}));
  });
}

TEST(SpreadRanks, SwitchesTrainAsOneProcess) {
  testing::run_ranks(4, [](World&) {
    expect_close(train("{" + kAxes + "}"), train_alone({}), 1e-8);
    expect_close(
        train(
            "{" + kAxes +
            R"(, "gradient_merge": true, )"
            R"("gradient_merge_configs": {"k_steps": 2}})"),
        train_alone({.merge = 2}),
        1e-8);
    expect_close(
        train(
            "{" + kAxes +
            R"(, "grad_clip": true, "grad_clip_configs": {"limit": 0.1}})"),
        train_alone({.clip_norm = 0.1}),
        1e-8);
    expect_close(
        train(
            "{" + kAxes +
            R"(, "grad_clip": true, )"
            R"("grad_clip_configs": {"by": "value", "limit": 0.01}})"),
        train_alone({.clip_value = 0.01}),
        1e-8);
    expect_close(
        train("{" + kAxes + R"(, "ema": true, "ema_configs": {"decay": 0.5}})"),
        train_alone({.ema = 0.5}),
        1e-8);
    expect_close(
        train("{" + kAxes + "}", torch::kDouble, nullptr, true),
        train_alone({}),
        1e-8);
  });
}

TEST(SpreadRanks, ShardingStagesTrainAsOneProcess) {
  testing::run_ranks(4, [](World&) {
    const Parameters expected = train_alone({.clip_norm = 0.1});
    for (const int stage : {1, 2, 3}) {
      expect_close(
          train(
              sharded(stage),
              torch::kDouble,
              [&](NetImpl& net) {
                const auto rows = to_local(net.head->weight.detach()).size(0);
                EXPECT_EQ(rows, stage == 3 ? 2 : 4);
              }),
          expected,
          1e-8);
    }
  });
}

TEST(SpreadRanks, AmpComputesInBfloat16) {
  testing::run_ranks(4, [](World&) {
    expect_close(
        train(
            "{" + kAxes + R"(, "amp": true})",
            torch::kFloat,
            [](NetImpl& net) { EXPECT_EQ(net.hidden, torch::kBFloat16); }),
        train_alone({.amp = true}, torch::kFloat),
        6e-2);
    const auto weights_are_cast = [](NetImpl& net) {
      EXPECT_EQ(net.up->weight.scalar_type(), torch::kBFloat16);
      EXPECT_EQ(
          placements_of(net.up->weight), (Placements{Replicate(), Shard(0)}));
    };
    expect_close(
        train(
            "{" + kAxes +
                R"(, "amp": true, "amp_configs": {"use_pure_bf16": true}})",
            torch::kFloat,
            weights_are_cast),
        train_alone({.amp = true}, torch::kFloat),
        6e-2);
  });
}

TEST(SpreadRanks, LambTakesTheNormsOfWholeParameters) {
  testing::run_ranks(2, [](World&) {
    expect_close(
        train<torch::optim::Adam>(R"({"lamb": true})"),
        train_alone<optim::Lamb>(
            {}, torch::kDouble, optim::LambOptions(1e-2).eps(1e-8)),
        1e-6);
  });
}

TEST(SpreadRanks, DTensorsInGiveDTensorsOut) {
  testing::run_ranks(4, [](World&) {
    init(true, DistributedStrategy::from_json("{" + kAxes + "}"));
    const ProcessMesh mesh = hybrid_mesh()->mesh();
    Net net;
    Net alone;
    parallelize(*net, mesh, kPlan);
    auto model = distributed_model(net);
    const Placements rows{Shard(0), Replicate()};
    const at::Tensor x = inputs(0).to(torch::kFloat);
    const at::Tensor y = model(shard_tensor(x, mesh, rows));
    ASSERT_TRUE(is_dtensor(y));
    loss_of(y, shard_tensor(labels(0), mesh, rows)).backward();
    loss_of(alone(x), labels(0)).backward();
    EXPECT_TRUE(torch::allclose(
        full_tensor(net->up->weight.grad()), alone->up->weight.grad(), 1e-4));
  });
}

TEST(SpreadRanks, ParametersAreWholeForATime) {
  testing::run_ranks(4, [](World&) {
    init(true, DistributedStrategy::from_json(sharded(3)));
    Net net;
    parallelize(*net, hybrid_mesh()->mesh(), kPlan);
    optim::AdamW adam(net->parameters(), 1e-2);
    auto model = distributed_model(net);
    auto optimizer = distributed_optimizer(adam);
    const auto step = [&] {
      const at::Tensor x = own_rows(inputs(0)).to(torch::kFloat);
      optimizer.minimize(loss_of(model(x), own_rows(labels(0))));
      optimizer.zero_grad();
    };
    step();
    std::stringstream file;
    {
      const auto all = model.whole();
      EXPECT_FALSE(is_dtensor(net->up->weight));
      torch::save(net, file);
      const torch::NoGradGuard no_grad;
      net->head->bias.zero_(); // on all ranks
    }
    EXPECT_TRUE(is_dtensor(net->up->weight));
    EXPECT_EQ(
        full_tensor(net->head->bias.detach()).abs().sum().item<float>(), 0);
    Net loaded;
    torch::load(loaded, file);
    EXPECT_TRUE(torch::equal(
        loaded->up->weight, full_tensor(net->up->weight.detach())));
    step();
    EXPECT_FALSE(torch::equal(
        loaded->up->weight, full_tensor(net->up->weight.detach())));
  });
}

// The state of the optimizer in a file gives the same bits.
TEST(SpreadRanks, StatesMayBeInAFile) {
  const TempDir folder;
  const auto strategy = [](int stage, const std::string& path) {
    return str(
        R"({"hybrid_configs": {"sharding_degree": 2, "mp_degree": 2},)"
        R"( "sharding_configs": {"stage": )",
        stage,
        path.empty()
            ? ""
            : str(R"(, "offload": true, "offload_path": ")", path, R"(")"),
        "}}");
  };
  const std::string path = folder.path().string();
  testing::run_ranks(4, [&](World&) {
    for (const int stage : {1, 2, 3}) {
      expect_close(train(strategy(stage, path)), train(strategy(stage, "")), 0);
    }
    expect_close(
        train<optim::Lamb>(strategy(1, path)),
        train<optim::Lamb>(strategy(1, "")),
        0);
    EXPECT_THROW(train(strategy(1, "/proc/no_folder")), SystemError);
  });
}

// Whether the memory is that of a file in the folder.
bool is_mapped(const at::Tensor& tensor, const std::string& folder) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    if (begin <= address && address < end) {
      return line.find(folder) != std::string::npos;
    }
  }
  return false;
}

// Shards of parameters and gradients in a file give the same bits, also where
// several passes add up.
TEST(SpreadRanks, ShardsMayBeInAFile) {
  const TempDir folder;
  const std::string path = folder.path().string();
  const auto strategy = [&](int stage, const std::string& offload) {
    return str(
        R"({"hybrid_configs": {"sharding_degree": 2, "mp_degree": 2},)"
        R"( "gradient_merge": true, "gradient_merge_configs": {"k_steps": 2},)"
        R"( "sharding_configs": {"stage": )",
        stage,
        offload,
        "}}");
  };
  const std::string offload =
      R"(, "offload": true, "offload_path": ")" + path + R"(")";
  testing::run_ranks(4, [&](World&) {
    for (const int stage : {2, 3}) {
      const std::string moved = stage == 3 ? R"(, "offload_params": true)" : "";
      expect_close(
          train(
              strategy(stage, offload + R"(, "offload_grads": true)" + moved),
              torch::kDouble,
              [&](NetImpl& net) {
                const at::Tensor weight = net.up->weight;
                EXPECT_EQ(
                    is_mapped(to_local(weight.detach()), path), stage == 3);
                EXPECT_TRUE(is_mapped(to_local(weight.grad()), path));
              }),
          train(strategy(stage, "")),
          0);
    }
    expect_close(
        train<optim::Lamb>(
            strategy(3, offload + R"(, "offload_params": true)")),
        train<optim::Lamb>(strategy(3, "")),
        0);
  });
}

TEST(SpreadRanks, ShardsInAFileOutliveTheOptimizer) {
  const TempDir folder;
  testing::run_ranks(2, [&](World&) {
    Net net;
    const ProcessMesh mesh = ProcessMesh::of_shape({2}, {"dp"});
    parallelize(*net, mesh, {});
    const Parameters before = whole(*net);
    const offload::OffloadOptions options{
        .offload_path = folder.path().string()};
    {
      optim::AdamW adam(net->parameters(), 1e-2);
      const auto optimizer = shard_optimizer(
          adam,
          ShardingStage3(),
          {.parameters = options, .gradients = options});
      net(inputs(0).to(torch::kFloat)).sum().backward();
    }
    expect_close(whole(*net), before, 0);
    EXPECT_TRUE(
        full_tensor(net->up->weight.grad()).isfinite().all().item<bool>());
    EXPECT_THAT(
        testing::refusal([&] {
          optim::AdamW adam(net->parameters(), 1e-2);
          shard_optimizer(adam, ShardingStage2(), {.parameters = options});
        }),
        HasSubstr("stage 2 keeps whole parameters"));
  });
}

TEST(SpreadRanks, SaysWhatDoesNotGoTogether) {
  testing::run_ranks(2, [](World&) {
    const auto refused = [](const std::string& json) {
      init(true, DistributedStrategy::from_json(json));
      Net net;
      parallelize(*net, hybrid_mesh()->mesh(), {});
      return testing::refusal([&] { distributed_model(net); });
    };
    EXPECT_THAT(refused(R"({"localsgd": true})"), HasSubstr("does not take"));
    init(true, {});
    Net other;
    parallelize(*other, ProcessMesh::of_shape({2}, {"dp"}), {});
    EXPECT_THAT(
        testing::refusal([&] { distributed_model(other); }),
        HasSubstr("call parallelize(model, fleet::hybrid_mesh()->mesh()"));
    Net net;
    optim::AdamW adam(net->parameters(), 1e-2);
    const auto before = parallelize(*net, adam, hybrid_mesh()->mesh(), {});
    auto model = distributed_model(net);
    EXPECT_THAT(
        testing::refusal([&] { distributed_optimizer(adam); }),
        HasSubstr("holds no parameter of a model"));
  });
}

} // namespace
} // namespace argosy::fleet
