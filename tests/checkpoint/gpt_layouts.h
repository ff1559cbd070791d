#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/compat/hybrid_communicate_group.h"
#include "argosy/data/sampler.h"
#include "argosy/fleet/fleet.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/sgd.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/world/world.h"
#include "examples/05_hybrid/parallel_gpt.h"
#include "examples/06_pipeline/pipeline_gpt.h"
#include "tests/fleet/gpt_training.h"
#include "tests/fleet/small_buffers.h"

// The GPT, trained by fleet in many layouts, whose runs can stop and continue.
namespace argosy::testing {

struct Layout {
  std::string name;
  int ranks = 1;
  int dp = 1;
  int pp = 1;
  int sharding = 1;
  int stage = 1; // of sharding
  int sep = 1;
  int mp = 1;
  int ep = 1;
  bool tokens = false;              // sequence parallelism of Megatron
  std::vector<std::int64_t> grid{}; // of the model axis
  long experts = 0;
  int chunks = 1; // of a stage
  std::string schedule = "1F1B";
  std::string optimizer = "AdamW"; // "SGD": with momentum; "torch": its AdamW
  std::string more = "{}";         // strategy

  std::string strategy() const {
    return str(
        R"({"hybrid_configs": {"dp_degree": )",
        dp,
        R"(, "pp_degree": )",
        pp,
        R"(, "sharding_degree": )",
        sharding,
        R"(, "sep_degree": )",
        sep,
        R"(, "mp_degree": )",
        mp,
        ep > 1 ? str(R"(, "ep_degree": )", ep) : "",
        "}",
        sharding > 1 ? str(R"(, "sharding_configs": {"stage": )", stage, "}")
                     : "",
        pp > 1 ? str(R"(, "pipeline_configs": {"accumulate_steps": 4, )",
                     R"("schedule_mode": ")",
                     schedule,
                     R"("})")
               : "",
        "}");
  }
};

struct RunOptions {
  double dropout = 0; // in the blocks of the GPT
  // The loss has a weight that torch's default generator draws, on each rank
  // its own. Ranks that are threads share this generator.
  bool weights = false;
};

// 13 words divide by nothing; 8 heads, 8 tokens and 24 rows by all.
inline const GptTask& layout_task() {
  static const GptTask task{
      .gpt = {.vocab = 13, .context = 8, .width = 16, .layers = 4, .heads = 8},
      .rows = 24};
  return task;
}

// One rank's part of a run.
class GptRun {
 public:
  explicit GptRun(const Layout& layout, const RunOptions& options = {})
      : layout_(layout), options_(options) {
    auto strategy = fleet::DistributedStrategy::from_json(layout.strategy());
    strategy.grad_clip = true;
    strategy.grad_clip_configs.limit = layout_task().limit;
    use_small_buffers(strategy);
    strategy.merge_json(layout.more);
    type_ = strategy.amp ? c10::kFloat : c10::kDouble;
    fleet::init(true, strategy);
    model_parallel_random_seed(7);
    if (options.weights) {
      torch::manual_seed(static_cast<std::uint64_t>(get_rank()));
    }
    gpt_ = {layout_task().gpt, nullptr, layout.tokens};
    gpt_.group = get_hybrid_communicate_group()->get_model_parallel_group();
    gpt_.grid = layout.grid;
    gpt_.experts = layout.experts;
    gpt_.dropout = options.dropout;
    if (layout.sep > 1) {
      gpt_.segments = std::make_shared<SegmentParallel>(
          nullptr, zigzag_split(gpt_.gpt.context, layout.sep));
    }
    sampler_.emplace(
        kSamples,
        data::SamplerOptions{
            .batch_size = layout_task().rows / fleet::data_num(),
            .num_replicas = fleet::data_num(),
            .rank = fleet::data_rank(),
            .shuffle = true,
            .seed = 3});
    layout.pp > 1 ? make_stage() : make_whole();
    scheduler_.emplace(optimizer_->optimizer(), 4, 0.9);
  }

  // All that a run needs to continue.
  checkpoint::State state() {
    checkpoint::State state;
    if (whole_) {
      state.add(*whole_);
    } else {
      state.add(*stage_);
    }
    state.add(*optimizer_).add(*scheduler_);
    state.add("sampler", *sampler_).add("steps", steps_);
    return state;
  }

  double step() {
    const auto batch = sampler_->next();
    const auto indices = batch ? batch : sampler_->next();
    const at::Tensor rows = samples_of(indices->indices);
    const at::Tensor inputs = part_of(rows.narrow(1, 0, gpt_.gpt.context));
    const at::Tensor targets = part_of(rows.narrow(1, 1, gpt_.gpt.context));
    at::Tensor loss =
        stage_ ? step_stage(inputs, targets) : step_whole(inputs, targets);
    all_reduce(loss, ReduceOp::AVG);
    scheduler_->step();
    ++steps_;
    return loss.item<double>();
  }

  std::vector<double> train(int steps) {
    std::vector<double> losses;
    for (int i = 0; i < steps; ++i) {
      losses.push_back(step());
    }
    return losses;
  }

  // Whole parameters by the names of the GPT, of this rank's stage.
  std::map<std::string, at::Tensor> parameters() {
    std::map<std::string, at::Tensor> all;
    const auto read = [&](torch::nn::Module& module) {
      for (const auto& item : module.named_parameters()) {
        if (item.key().find("experts.") != std::string::npos) {
          continue; // each rank may have others
        }
        all[name_of(item.key())] =
            tensor_parallel::full_parameter(item.value(), gpt_.group).clone();
      }
    };
    if (whole_) {
      const auto scope = whole_->whole();
      read(**gpt_model_);
    } else {
      const auto scope = stage_->whole();
      read(stage_->module());
    }
    return all;
  }

  std::string name_of(const std::string& name) const {
    return stage_ ? examples::gpt_name(name, gpt_.gpt.layers) : name;
  }

  int steps() const { return steps_; }
  // Of the loss; 1 without a scaler.
  double scale() {
    return optimizer_->scaler() ? optimizer_->scaler()->loss_scaling() : 1;
  }

 private:
  static constexpr std::int64_t kSamples = 96; // 4 batches an epoch

  void make_whole() {
    gpt_model_.emplace(gpt_);
    prepare(**gpt_model_, [](const std::string& name) { return name; });
    make_optimizer((*gpt_model_)->parameters());
    whole_.emplace(fleet::distributed_model(*gpt_model_));
    optimizer_.emplace(fleet::distributed_optimizer(*inner_));
  }

  void make_stage() {
    pipeline::PipelineLayerOptions options;
    options.chunks = layout_.chunks;
    options.order = layout_.schedule == "ZBV" ? pipeline::PartOrder::kV
                                              : pipeline::PartOrder::kRound;
    options.loss_fns = {examples::gpt_loss(gpt_)};
    layers_.emplace(examples::gpt_layers(gpt_), options);
    prepare(**layers_, [this](const std::string& name) {
      return examples::gpt_name(name, gpt_.gpt.layers);
    });
    make_optimizer((*layers_)->parameters());
    stage_.emplace(fleet::distributed_model(*layers_));
    optimizer_.emplace(fleet::distributed_optimizer(*inner_));
  }

  template <typename NameOf>
  void prepare(torch::nn::Module& module, const NameOf& name_of) {
    module.to(type_);
    if (layout_.experts > 0) {
      return; // values do not depend on the layout
    }
    const auto whole = layout_task().make_gpt()->named_parameters();
    for (const auto& item : module.named_parameters()) {
      tensor_parallel::load_parameter(
          item.value(), whole[name_of(item.key())], gpt_.group);
    }
  }

  void make_optimizer(const Tensors& parameters) {
    if (layout_.optimizer == "SGD") {
      inner_ = std::make_unique<optim::SGD>(
          parameters, optim::SGDOptions(3e-2).momentum(0.9));
    } else if (layout_.optimizer == "torch") {
      inner_ = std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions(1e-2));
    } else {
      inner_ =
          std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(1e-2));
    }
  }

  at::Tensor weight() const {
    const at::Tensor ones = torch::ones({8}, type_);
    return (options_.weights ? torch::dropout(ones, 0.5, true) : ones).mean();
  }

  at::Tensor step_whole(const at::Tensor& inputs, const at::Tensor& targets) {
    optimizer_->zero_grad();
    const at::Tensor loss =
        tensor_parallel::cross_entropy(
            (*whole_)(inputs), targets, gpt_.group, {.num_classes = 13})
            .mean() *
        weight();
    optimizer_->backward(loss);
    optimizer_->step();
    return loss.detach().clone();
  }

  at::Tensor step_stage(const at::Tensor& inputs, const at::Tensor& targets) {
    return stage_->train_batch({inputs}, {targets}, *optimizer_);
  }

  at::Tensor samples_of(const std::vector<std::int64_t>& indices) const {
    std::vector<at::Tensor> rows;
    for (const std::int64_t index : indices) {
      rows.push_back(((numbers({gpt_.gpt.context + 1}, index) + 1) * 5000)
                         .to(torch::kLong)
                         .remainder(gpt_.gpt.vocab));
    }
    return torch::stack(rows);
  }

  at::Tensor part_of(const at::Tensor& rows) const {
    return gpt_.segments ? gpt_.segments->part(rows, 1) : rows;
  }

  const Layout layout_;
  const RunOptions options_;
  c10::ScalarType type_ = c10::kDouble;
  examples::ParallelGptOptions gpt_;
  std::optional<data::DistributedBatchSampler> sampler_;
  int steps_ = 0;
  std::unique_ptr<torch::optim::Optimizer> inner_;
  // One or the other.
  std::optional<examples::ParallelGpt> gpt_model_;
  std::optional<fleet::DistributedModel<examples::ParallelGpt>> whole_;
  std::optional<pipeline::PipelineLayer> layers_;
  std::optional<fleet::PipelineModel> stage_;
  std::optional<fleet::DistributedOptimizer> optimizer_;
  std::optional<torch::optim::StepLR> scheduler_;
};

} // namespace argosy::testing
