// Whole models, unchanged, in every kind of parallelism: losses and parameters
// after ten steps equal those of one process, and the collectives are those of
// theory.

#include <gtest/gtest.h>

#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/optim/adam.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"

namespace argosy::testing {
namespace {

constexpr int kSteps = 10;

struct Case {
  std::string name;
  std::string model;
  ProcessMesh mesh;
  Placements data;
  ParallelizeConfig config = {};
  int rows = 4;
};

std::ostream& operator<<(std::ostream& out, const Case& each) {
  return out << each.name;
}

using Mp = ParallelizeConfig::Mp;
using Dp = ParallelizeConfig::Dp;

const ProcessMesh kMp2 = ProcessMesh::of_shape({2}, {"mp"});
const ProcessMesh kDp2 = ProcessMesh::of_shape({2}, {"dp"});
const ProcessMesh kSquare = ProcessMesh::of_shape({2, 2}, {"dp", "mp"});

Mp tensor_parallel_gpt() {
  return {
      {{R"(blocks\..*\.(qkv|up))", ColWiseParallel()},
       {R"(blocks\..*\.(out|down))", RowWiseParallel()}}};
}

Mp sequence_parallel_gpt() {
  Mp mp = tensor_parallel_gpt();
  mp.parallelize_plan.emplace_back("tokens", SequenceParallelBegin());
  mp.parallelize_plan.emplace_back("norm", SequenceParallelEnd());
  return mp;
}

Mp vocabulary_parallel_gpt() {
  Mp mp = tensor_parallel_gpt();
  mp.parallelize_plan.emplace_back("tokens", RowWiseParallel());
  return mp;
}

// Patches of a picture, attention among all of them, and one score for each
// class from their mean.
struct VitImpl : torch::nn::Module {
  torch::nn::Conv2d patches = register_module(
      "patches",
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 2).stride(2)));
  at::Tensor places = register_parameter("places", torch::empty({9, 16}));
  Block block = register_module("block", Block(GptOptions{.width = 16}));
  torch::nn::LayerNorm norm = register_module(
      "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 3));

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor all = patches(x).flatten(2).transpose(1, 2) + places;
    const at::Tensor none = torch::zeros({9, 9}, torch::kBool);
    return head(norm(block->forward(all, none)).mean(1));
  }
};
TORCH_MODULE(Vit);

struct RecurrentImpl : torch::nn::Module {
  torch::nn::Embedding words =
      register_module("words", torch::nn::Embedding(13, 8));
  torch::nn::LSTM lstm = register_module(
      "lstm",
      torch::nn::LSTM(
          torch::nn::LSTMOptions(8, 12).num_layers(2).batch_first(true)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(12, 13));

  at::Tensor forward(const at::Tensor& x) {
    return head(std::get<0>(lstm(words(x))));
  }
};
TORCH_MODULE(Recurrent);

std::vector<OracleModel> all_models() {
  std::vector<OracleModel> models = oracle_models();
  models.push_back(
      {.name = "vit",
       .make = [] { return torch::nn::AnyModule(Vit()); },
       .input = models[1].input});
  models.push_back(
      {.name = "lstm",
       .make = [] { return torch::nn::AnyModule(Recurrent()); },
       .input = models[2].input,
       .classes = 13,
       .targets = 8});
  return models;
}

const OracleModel& model_called(const std::string& name) {
  static const std::vector<OracleModel> models = all_models();
  for (const OracleModel& model : models) {
    if (model.name == name) {
      return model;
    }
  }
  throw std::logic_error(name);
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> parameters;
};

Trained train_plain(const OracleModel& model, int rows) {
  torch::nn::AnyModule net = model.make_with_weights();
  torch::optim::AdamW adam(net.ptr()->parameters(), {0.01});
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = model.batch(rows, step);
    adam.zero_grad();
    const at::Tensor loss =
        loss_of(net.forward<at::Tensor>(batch.x), batch.target);
    loss.backward();
    adam.step();
    trained.losses.push_back(loss.item<double>());
  }
  for (const auto& each : net.ptr()->named_parameters()) {
    trained.parameters[each.key()] = each.value().detach();
  }
  return trained;
}

Trained train_parallel(const OracleModel& model, const Case& each) {
  torch::nn::AnyModule net = model.make_with_weights();
  torch::optim::AdamW adam(net.ptr()->parameters(), {0.01});
  ShardOptimizer optimizer =
      parallelize(*net.ptr(), adam, each.mesh, each.config);
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = model.batch(each.rows, step);
    const auto place = [&](const at::Tensor& tensor) {
      return shard_tensor(tensor, each.mesh, each.data);
    };
    const at::Tensor loss =
        loss_of(net.forward<at::Tensor>(place(batch.x)), place(batch.target));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    trained.losses.push_back(full_tensor(loss.detach()).item<double>());
  }
  for (const auto& item : net.ptr()->named_parameters()) {
    trained.parameters[item.key()] = full_tensor(item.value().detach());
  }
  return trained;
}

class ParallelModels : public ::testing::TestWithParam<Case> {};

TEST_P(ParallelModels, TrainAsOneProcess) {
  const Case& each = GetParam();
  const OracleModel& model = model_called(each.model);
  const Trained expected = train_plain(model, each.rows);
  run_ranks(each.mesh.size(), [&](World&) {
    const Trained trained = train_parallel(model, each);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(trained.losses[step], expected.losses[step], 1e-9) << step;
    }
    for (const auto& [name, value] : expected.parameters) {
      EXPECT_TRUE(
          torch::allclose(trained.parameters.at(name), value, 1e-7, 1e-9))
          << name;
    }
  });
}

std::vector<Case> cases() {
  const Placements all{Replicate()};
  const Placements rows{Shard(0)};
  const Dp full{.sharding_level = 3};
  const Mp vit{
      {{"patches", ColWiseParallel{.gather_output = true}},
       {R"(block\.(qkv|up))", ColWiseParallel()},
       {R"(block\.(out|down))", RowWiseParallel()}}};
  const Mp lstm{{{"words", RowWiseParallel()}, {"head", ColWiseParallel()}}};
  return {
      {"gpt_replicated", "gpt", kMp2, all},
      {"gpt_data", "gpt", kDp2, rows},
      {"gpt_data_uneven", "gpt", ProcessMesh::of_shape({3}, {"dp"}), rows},
      {"gpt_tensor", "gpt", kMp2, all, {.mp_config = tensor_parallel_gpt()}},
      {"gpt_sequence",
       "gpt",
       kMp2,
       all,
       {.mp_config = sequence_parallel_gpt()}},
      {"gpt_vocabulary",
       "gpt",
       kMp2,
       all,
       {.mp_config = vocabulary_parallel_gpt()}},
      {"gpt_data_tensor",
       "gpt",
       kSquare,
       {Shard(0), Replicate()},
       {.mp_config = tensor_parallel_gpt()}},
      {"gpt_data_tensor_sharded",
       "gpt",
       kSquare,
       {Shard(0), Replicate()},
       {.mp_config = sequence_parallel_gpt(), .dp_config = full}},
      {"gpt_fully_sharded", "gpt", kDp2, rows, {.dp_config = full}},
      {"cnn_data", "cnn", kDp2, rows},
      {"cnn_fully_sharded", "cnn", kDp2, rows, {.dp_config = full}},
      {"cnn_channels",
       "cnn",
       kMp2,
       all,
       {.mp_config =
            Mp{{{"conv", ColWiseParallel()}, {"deeper", RowWiseParallel()}}}}},
      {"vit_data", "vit", kDp2, rows},
      {"vit_tensor", "vit", kMp2, all, {.mp_config = vit}},
      {"vit_data_tensor",
       "vit",
       kSquare,
       {Shard(0), Replicate()},
       {.mp_config = vit, .dp_config = full}},
      {"lstm_data", "lstm", kDp2, rows},
      {"lstm_fully_sharded", "lstm", kDp2, rows, {.dp_config = full}},
      {"lstm_tensor", "lstm", kMp2, all, {.mp_config = lstm}},
  };
}

INSTANTIATE_TEST_SUITE_P(
    All, ParallelModels, ::testing::ValuesIn(cases()), [](const auto& test) {
      return test.param.name;
    });

// What one step of the GPT with 2 blocks communicates: of each collective how
// often, forward and backward.
using Counts = std::map<std::string, std::pair<int, int>>;

Counts counts_of_step(const Mp& mp) {
  Counts counts;
  run_ranks(2, [&](World& world) {
    const OracleModel& model = model_called("gpt");
    dtensor_check_values(0); // so that only the model communicates
    torch::nn::AnyModule net = model.make_with_weights();
    parallelize(*net.ptr(), kMp2, {.mp_config = mp});
    const Batch batch = model.batch(2, 0);
    CommDebug debug;
    const at::Tensor loss =
        loss_of(net.forward<at::Tensor>(batch.x), batch.target);
    const std::size_t forward = debug.entries().size();
    loss.backward();
    if (world.rank() != 0) {
      return;
    }
    for (std::size_t i = 0; i < debug.entries().size(); ++i) {
      auto& [there, back] = counts[debug.entries()[i].collective];
      ++(i < forward ? there : back);
    }
  });
  return counts;
}

TEST(ParallelModelsComm, TensorParallelReducesTwiceABlockEachWay) {
  EXPECT_EQ(
      counts_of_step(tensor_parallel_gpt()), (Counts{{"all_reduce", {4, 4}}}));
}

// Forward one more all_gather, where the sequence ends, and backward one where
// it begins. Backward gathers the inputs of qkv and up once more, as only their
// parts were kept.
TEST(ParallelModelsComm, SequenceParallelGathersAndScattersInstead) {
  EXPECT_EQ(
      counts_of_step(sequence_parallel_gpt()),
      (Counts{{"all_gather", {4 + 1, 4 + 4 + 1}}, {"reduce_scatter", {4, 4}}}));
}

} // namespace
} // namespace argosy::testing
