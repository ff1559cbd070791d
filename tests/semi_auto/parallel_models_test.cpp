// Whole models, unchanged, in every kind of parallelism: losses and parameters
// after ten steps equal those of one process, and the collectives are those of
// theory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "argosy/dtensor/deferred_init.h"
#include "argosy/dtensor/dtensor.h"
#include "argosy/dtensor/tensor/comm_debug.h"
#include "argosy/mesh/rank_mesh.h"
#include "argosy/optim/adam.h"
#include "argosy/pipeline/cut/cut_stage.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/semi_auto/parallelize.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/oracle_models.h"
#include "tests/support/refusal.h"

namespace argosy::testing {
namespace {

using ::testing::HasSubstr;

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

const ProcessMesh kMp2({2}, {"mp"});
const ProcessMesh kDp2({2}, {"dp"});
const ProcessMesh kSquare({2, 2}, {"dp", "mp"});

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
  std::map<std::string, at::Tensor> gradients; // of the first step
  std::map<std::string, at::Tensor> parameters;
};

std::map<std::string, at::Tensor> gradients_of(
    const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& item : module.named_parameters()) {
    gradients[item.key()] = full_tensor(item.value().grad()).clone();
  }
  return gradients;
}

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
    if (step == 0) {
      trained.gradients = gradients_of(*net.ptr());
    }
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
      {"gpt_data_uneven", "gpt", ProcessMesh({3}, {"dp"}), rows},
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

// Unchanged models with a pipeline, too.
struct PipelineCase {
  std::string name;
  ProcessMesh mesh;
  ParallelizeConfig config;
  std::string schedule = "1f1b";
  int microbatches = 2;
};

std::ostream& operator<<(std::ostream& out, const PipelineCase& each) {
  return out << each.name;
}

constexpr int kRows = 8;

at::Tensor rows_of(const at::Tensor& whole, const ProcessMesh& stage_mesh) {
  const auto& names = stage_mesh.dim_names();
  if (std::ranges::find(names, "dp") == names.end()) {
    return whole;
  }
  const auto parts = stage_mesh.get_dim_size("dp");
  return whole.chunk(parts)[stage_mesh.get_rank_by_dim_and_process_id(
      "dp", rank_mesh(stage_mesh)->rank())];
}

Trained train_pipeline(const PipelineCase& each) {
  const OracleModel& model = model_called("gpt");
  Gpt gpt(small_gpt());
  set_weights(*gpt);
  const auto part = [&](const at::Tensor& whole) {
    return rows_of(whole, each.mesh);
  };
  const at::Tensor rows = part(model.batch(kRows, 0).x);
  const auto stage = parallelize(
      pipeline::existing(gpt),
      {rows.narrow(0, 0, rows.size(0) / each.microbatches)},
      each.mesh,
      each.config);
  pipeline::PipelineParallel trainer(
      stage,
      {[](const Tensors& outputs, const Tensors& labels) {
        return loss_of(outputs[0], labels[0]);
      }},
      {.microbatches = each.microbatches, .schedule = each.schedule});
  optim::AdamW adam(stage->module().parameters(), {0.01});
  const int level =
      each.config.dp_config ? each.config.dp_config->sharding_level : 0;
  ShardOptimizer optimizer = shard_optimizer(
      adam, level > 0 ? ShardingStage{level, "dp"} : ShardingStage());
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = model.batch(kRows, step);
    const at::Tensor loss =
        trainer.forward_backward({part(batch.x)}, {part(batch.target)});
    if (step == 0) {
      trained.gradients = gradients_of(stage->module());
    }
    optimizer.step();
    optimizer.zero_grad();
    trained.losses.push_back(loss.item<double>());
  }
  for (const auto& item : stage->module().named_parameters()) {
    trained.parameters[item.key()] = full_tensor(item.value().detach());
  }
  return trained;
}

class ParallelPipelines : public ::testing::TestWithParam<PipelineCase> {};

TEST_P(ParallelPipelines, TrainAsOneProcess) {
  const PipelineCase& each = GetParam();
  const Trained expected = train_plain(model_called("gpt"), kRows);
  run_ranks(each.mesh.size(), [&](World&) {
    const Trained trained = train_pipeline(each);
    for (int step = 0; step < kSteps; ++step) {
      // The loss is told as float.
      EXPECT_NEAR(trained.losses[step], expected.losses[step], 1e-6) << step;
    }
    EXPECT_GE(trained.parameters.size(), 12); // a block
    EXPECT_LT(trained.parameters.size(), expected.parameters.size());
    for (const auto& [name, value] : trained.parameters) {
      EXPECT_TRUE(torch::allclose(
          trained.gradients.at(name), expected.gradients.at(name), 1e-9, 1e-12))
          << name;
      EXPECT_TRUE(
          torch::allclose(value, expected.parameters.at(name), 1e-7, 1e-9))
          << name;
    }
  });
}

std::vector<PipelineCase> pipeline_cases() {
  using Pp = ParallelizeConfig::Pp;
  const Pp middle{.split_spec = {{"blocks.0", SplitPoint::END}}};
  const ProcessMesh with_tensors({2, 2}, {"pp", "mp"});
  const ProcessMesh with_data({2, 2}, {"pp", "dp"});
  const ProcessMesh with_all({2, 2, 2}, {"pp", "dp", "mp"});
  return {
      {"stages", ProcessMesh({2}, {"pp"}), {.pp_config = middle}},
      {"data", with_data, {.pp_config = middle}},
      {"data_fully_sharded",
       with_data,
       {.dp_config = Dp{.sharding_level = 3}, .pp_config = middle},
       "zbh1"},
      {"tensor",
       with_tensors,
       {.mp_config = tensor_parallel_gpt(), .pp_config = Pp{}}},
      {"sequence",
       with_tensors,
       {.mp_config = sequence_parallel_gpt(), .pp_config = middle},
       "zbh1"},
      {"vocabulary_in_a_v",
       with_tensors,
       {.mp_config = vocabulary_parallel_gpt(),
        .pp_config =
            Pp{.chunks = 2,
               .order = pipeline::PartOrder::kV,
               .recompute = RecomputeOptions{}}},
       "zbv",
       4},
      {"data_tensor",
       with_all,
       {.mp_config = tensor_parallel_gpt(), .pp_config = middle}},
      {"data_tensor_sharded_1",
       with_all,
       {.mp_config = vocabulary_parallel_gpt(),
        .dp_config = Dp{.sharding_level = 1},
        .pp_config = middle}},
      {"data_tensor_sharded_2",
       with_all,
       {.mp_config = tensor_parallel_gpt(),
        .dp_config = Dp{.sharding_level = 2},
        .pp_config = middle}},
      {"data_tensor_sharded_3",
       with_all,
       {.mp_config = sequence_parallel_gpt(),
        .dp_config = Dp{.sharding_level = 3},
        .pp_config = middle}},
  };
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ParallelPipelines,
    ::testing::ValuesIn(pipeline_cases()),
    [](const auto& test) { return test.param.name; });

// Each rank makes its shards of its stage and nothing else, with the values of
// the whole model.
TEST(ParallelPipeline, MakesDeferredParametersOfItsStage) {
  const auto make = [] {
    dtensor_manual_seed(3);
    const DeferredInit deferred;
    return Gpt(small_gpt());
  };
  run_ranks(4, [&](World& world) {
    Gpt whole = make();
    parallelize(*whole, ProcessMesh({4}, {"mp"}), {});
    Gpt gpt = make();
    const auto stage = parallelize(
        pipeline::existing(gpt),
        {torch::zeros({2, 8}, torch::kLong)},
        ProcessMesh({2, 2}, {"pp", "mp"}),
        {.mp_config = tensor_parallel_gpt(),
         .pp_config = ParallelizeConfig::Pp{
             .split_spec = {{"blocks.0", SplitPoint::END}}}});
    const auto expected = whole->named_parameters();
    for (const auto& item : stage->module().named_parameters()) {
      EXPECT_TRUE(torch::equal(
          full_tensor(item.value().detach()),
          full_tensor(expected[item.key()].detach())))
          << item.key();
    }
    const std::string other = world.rank() < 2 ? "blocks.1" : "blocks.0";
    EXPECT_TRUE(to_local(gpt->named_parameters()[other + ".up.weight"].detach())
                    .is_meta());
  });
}

TEST(ParallelPipeline, SaysHowToCutAModel) {
  run_ranks(2, [](World&) {
    Gpt gpt(small_gpt());
    const ParallelizeConfig config{.pp_config = ParallelizeConfig::Pp()};
    EXPECT_THAT(
        refusal([&] { parallelize(*gpt, kMp2, config); }),
        HasSubstr("parallelize(pipeline::existing(model)"));
    EXPECT_THAT(
        refusal([&] {
          parallelize(
              pipeline::existing(gpt), {torch::zeros({2, 8})}, kMp2, config);
        }),
        HasSubstr("has no axis pp, over which pp_config splits the model"));
  });
}

// What one step of the GPT with 2 blocks communicates: of each collective how
// often, forward and backward.
using Counts = std::map<std::string, std::pair<int, int>>;

Counts counts_of_step(const Mp& mp) {
  Counts counts;
  run_ranks(2, [&](World& world) {
    const OracleModel& model = model_called("gpt");
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
