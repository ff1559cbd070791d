// A GPT on two ranks, parallelized along one axis at a time: training speed,
// memory per rank and bytes sent. The source of the figures in
// docs/choosing.md. Ranks are threads with one core each.

#include <chrono>
#include <mutex>

#include "argosy/argosy.h"
#include "argosy/comm/traffic.h"
#include "argosy/fleet/pipeline_model.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/optim/adam.h"
#include "argosy/testing/ranks.h"
#include "bench/harness.h"
#include "examples/06_pipeline/pipeline_gpt.h"

namespace argosy::bench {
namespace {

using examples::ParallelGptOptions;

constexpr long kRows = 8; // of both ranks together
constexpr int kMicrobatches = 4;

struct Size {
  GptOptions gpt;
  int steps = 2;
};

struct Way {
  std::string name;
  std::string strategy;
  long experts = 0;
};

struct Measured {
  double seconds = 0;
  double peak_megabytes = 0; // tensors of the rank that uses more
  double sent_megabytes = 0; // per rank and step
};

ParallelGptOptions options_of(const GptOptions& gpt, long experts) {
  const auto hybrid = fleet::hybrid_mesh();
  ParallelGptOptions options{gpt, hybrid->group_over({"model"})};
  options.experts = experts;
  options.expert_group = hybrid->group_over({"expert"});
  if (hybrid->size_on("sep") > 1) {
    options.segments = std::make_shared<SegmentParallel>(
        nullptr, zigzag_split(gpt.context, hybrid->size_on("sep")));
  }
  return options;
}

// Bytes sent by all groups of this rank.
double sent(const std::vector<GroupPtr>& groups) {
  double bytes = 0;
  for (const GroupPtr& group : groups) {
    const auto& traffic = group->traffic();
    bytes += static_cast<double>(
        traffic.total().bytes - traffic.of(comm::OpKind::Recv).bytes);
  }
  return bytes;
}

// Scales embeddings as GPT-2 does. Otherwise the softmax saturates, and the
// resulting denormal numbers slow the computation.
void shrink_words(pipeline::PipelineLayer& layers, long num_blocks) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : layers->named_parameters()) {
    if (examples::gpt_name(item.key(), num_blocks) == "tokens.weight") {
      item.value().mul_(0.02);
    }
  }
}

Measured train(const Way& way, const Size& size) {
  torch::set_num_threads(1);
  auto strategy = fleet::DistributedStrategy::from_json(way.strategy);
  strategy.pipeline_configs.accumulate_steps = kMicrobatches;
  fleet::init(true, strategy);
  const TensorMemory memory;
  const ParallelGptOptions options = options_of(size.gpt, way.experts);
  pipeline::PipelineLayerOptions list;
  list.loss_fns = {examples::gpt_loss(options)};
  list.segmentation.method = "layer:StageBlock";
  pipeline::PipelineLayer layers(examples::gpt_layers(options), list);
  shrink_words(layers, size.gpt.layers);
  optim::AdamW adam(layers->parameters(), optim::AdamWOptions(1e-3));
  auto model = fleet::distributed_model(layers);
  auto optimizer = fleet::distributed_optimizer(adam);
  at::Tensor text = torch::randint(
      size.gpt.vocab, {kRows / fleet::data_num(), size.gpt.context});
  if (options.segments) {
    text = options.segments->part(
        torch::randint(size.gpt.vocab, {kRows, size.gpt.context}), 1);
  }
  const auto step = [&] { model.train_batch({text}, {text}, optimizer); };
  step();
  const auto& axes = fleet::current_fleet("bench.axes")->axes();
  const std::vector<GroupPtr> groups = {
      axes.world,
      axes.data,
      axes.sharding,
      axes.replicas,
      axes.model,
      axes.hybrid->group_over({"pipe"}),
      axes.hybrid->group_over({"sep"}),
      axes.hybrid->group_over({"expert"})};
  std::vector<GroupPtr> distinct;
  for (const GroupPtr& each : groups) {
    if (std::find(distinct.begin(), distinct.end(), each) == distinct.end()) {
      distinct.push_back(each);
    }
  }
  barrier();
  const double before = sent(distinct);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < size.steps; ++i) {
    step();
  }
  barrier();
  const std::chrono::duration<double> passed =
      std::chrono::steady_clock::now() - begin;
  return {
      passed.count() / size.steps,
      static_cast<double>(memory.peak()) / (1 << 20),
      (sent(distinct) - before) / size.steps / (1 << 20)};
}

Measured measure(const Way& way, const Size& size, int ranks) {
  Measured most;
  std::mutex mutex;
  testing::run_ranks(ranks, [&](World&) {
    const Measured own = train(way, size);
    const std::lock_guard lock(mutex);
    most.seconds = std::max(most.seconds, own.seconds);
    most.peak_megabytes = std::max(most.peak_megabytes, own.peak_megabytes);
    most.sent_megabytes = std::max(most.sent_megabytes, own.sent_megabytes);
  });
  return most;
}

std::vector<Way> ways() {
  return {
      {"data", R"({"hybrid_configs": {"dp_degree": 2}})"},
      {"sharding 1", R"({"hybrid_configs": {"sharding_degree": 2}})"},
      {"sharding 2",
       R"({"hybrid_configs": {"sharding_degree": 2},
           "sharding_configs": {"stage": 2}})"},
      {"sharding 3",
       R"({"hybrid_configs": {"sharding_degree": 2},
           "sharding_configs": {"stage": 3}})"},
      {"model", R"({"hybrid_configs": {"mp_degree": 2}})"},
      {"sep", R"({"hybrid_configs": {"sep_degree": 2}})"},
      {"pipe, 1F1B", R"({"hybrid_configs": {"pp_degree": 2}})"},
      {"pipe, ZBH1",
       R"({"hybrid_configs": {"pp_degree": 2},
           "pipeline_configs": {"schedule_mode": "ZBH1"}})"}};
}

void add_rows(
    Report& report,
    const std::vector<Way>& all,
    const Size& size,
    int rounds,
    const std::string& note) {
  const double tokens = static_cast<double>(kRows * size.gpt.context);
  const Way alone{"", "{}", all.front().experts};
  std::map<std::string, Measured> best;
  for (int round = 0; round < rounds; ++round) {
    for (const Way& way : all) {
      const Measured now = measure(way, size, 2);
      const auto [found, is_new] = best.emplace(way.name, now);
      if (!is_new && now.seconds < found->second.seconds) {
        found->second = now;
      }
    }
    const Measured one = measure(alone, size, 1);
    const auto [found, is_new] = best.emplace("", one);
    if (!is_new && one.seconds < found->second.seconds) {
      found->second = one;
    }
  }
  for (const Way& way : all) {
    const Measured& it = best.at(way.name);
    Row row{way.name + note, "tokens/s", Better::Higher};
    row.ours = tokens / it.seconds;
    row.peers["one rank"] = tokens / best.at("").seconds;
    row.extra["also MB of tensors"] = std::round(it.peak_megabytes);
    row.extra["also MB sent a step"] = std::round(it.sent_megabytes * 10) / 10;
    report.add(row);
  }
}

void run(Flags flags) {
  Report report("axes", flags);
  Size size{
      {.vocab = 512, .context = 64, .width = 256, .layers = 4, .heads = 4}};
  if (flags.quick) {
    size.steps = 1;
  }
  const int rounds = flags.quick ? 1 : 2;
  add_rows(report, ways(), size, rounds, "");
  add_rows(
      report,
      {{"data", R"({"hybrid_configs": {"dp_degree": 2}})", 8},
       {"expert", R"({"hybrid_configs": {"ep_degree": 2}})", 8}},
      size,
      rounds,
      ", with 8 experts");
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
