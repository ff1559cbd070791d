// A rank of bench/pipeline: does what lines on standard input say, and answers
// each with one line.
//
//   load gpt 1f1b   makes this rank's stage of a GPT and trains three steps by
//                   that schedule; the answer is their losses. Others than
//                   those of make_schedule(): synthesised, from times that are
//                   measured first; alone, where stages compute as much and
//                   send nothing. Others than gpt: sleeping, whose stages
//                   sleep instead of computing
//   run 5           trains five steps; the answer is the seconds they took,
//                   then of the last one the bubble, and the bytes of
//                   activations that the stage kept at most: both as measured,
//                   as simulated, and by the formula (-1: there is none)

#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <numeric>

#include "argosy/argosy.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/pipeline/measure.h"
#include "argosy/pipeline/pipeline_parallel.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/synthesize.h"
#include "bench/hashed.h"
#include "bench/pipeline_figures.h"
#include "bench/training_server.h"
#include "examples/06_pipeline/pipeline_gpt.h"
#include "tests/pipeline/sleeping_layer.h"

namespace argosy::bench {
namespace {

using pipeline::LayerCost;
using pipeline::LayerDesc;
using pipeline::measure_layers;
using pipeline::PartCosts;
using pipeline::PartOrder;
using pipeline::PipelineLayer;
using pipeline::PipelineLayerOptions;
using pipeline::PipelineParallel;
using pipeline::Schedule;

constexpr int kMicrobatches = 8;
constexpr int kChunks = 2; // where a schedule takes any

// What rank 0 finds, on all, for stages that keep no more than 1F1B's first.
Schedule synthesised(const PartCosts& costs) {
  std::vector<std::string> text(1);
  if (get_rank() == 0) {
    pipeline::SynthesisInput input;
    input.stages = get_world_size();
    input.microbatches = kMicrobatches;
    input.chunks = kChunks;
    input.costs = costs;
    input.memory_cap =
        1.05 * std::accumulate(costs.memory.begin(), costs.memory.end(), 0.0);
    text[0] = to_json(synthesize(input));
  }
  broadcast_object_list(text, 0);
  return pipeline::schedule_from_json(text[0], "rank 0");
}

Schedule known(const std::string& name) {
  const int chunks = name == "interleaved" ? kChunks : 1;
  return pipeline::make_schedule(name, get_world_size(), kMicrobatches, chunks);
}

// A GPT in stages of as many blocks each.
struct GptStages {
  explicit GptStages(int chunks, PartOrder order = PartOrder::kRound)
      : layers(gpt_layers(options), layer_options(chunks, order)) {
    Gpt whole(options.gpt);
    set_weights(*whole);
    const auto source = whole->named_parameters();
    const torch::NoGradGuard no_grad;
    for (auto& item : layers->named_parameters()) {
      item.value().copy_(
          source[examples::gpt_name(item.key(), options.gpt.layers)]);
    }
  }

  PipelineLayerOptions layer_options(int chunks, PartOrder order) const {
    const int parts = get_world_size() * chunks;
    std::vector<int> starts{0};
    for (int i = 1; i < parts; ++i) { // behind the words and the places
      starts.push_back(2 + i * static_cast<int>(options.gpt.layers) / parts);
    }
    PipelineLayerOptions result;
    result.chunks = chunks;
    result.order = order;
    result.segmentation = pipeline::Segmentation::at(starts);
    result.loss_fns = {gpt_loss(options)};
    return result;
  }

  // What a part gets.
  Tensors example_input(int part, long rows) const {
    if (part == 0) {
      return {text.slice(0, 0, rows).slice(1, 0, options.gpt.context)};
    }
    return {uniform({rows, options.gpt.context, options.gpt.width}, 7)
                .requires_grad_()};
  }
  Tensors labels(long rows = kRows) const {
    return {text.slice(0, 0, rows).slice(1, 1).contiguous()};
  }

  static constexpr long kRows = 2 * kMicrobatches;
  const examples::ParallelGptOptions options{
      .gpt = {.context = 96, .width = 256, .layers = 8, .heads = 4},
      .group = shared_group(current_world(), {get_rank()})};
  PipelineLayer layers;
  const at::Tensor text =
      hashed({kRows, options.gpt.context + 1}, 1000).remainder(256);
};

// What each part of all stages costs. The loss belongs to the last.
PartCosts measure(GptStages& model) {
  const int chunks = model.layers->chunks();
  const int stages = get_world_size();
  const long rows = GptStages::kRows / kMicrobatches;
  std::vector<std::function<Tensors(const Tensors&)>> parts;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    parts.emplace_back([&, chunk](const Tensors& in) -> Tensors {
      const Tensors out = model.layers->forward(chunk, in);
      return chunk * stages + get_rank() + 1 < chunks * stages
          ? out
          : Tensors{gpt_loss(model.options)(out, model.labels(rows))};
    });
  }
  std::vector<double> own;
  barrier();
  for (const LayerCost& each :
       measure_layers(parts, model.example_input(get_rank(), rows))) {
    own.insert(
        own.end(),
        {each.forward,
         each.backward_input,
         each.backward_weight,
         static_cast<double>(each.activation_bytes)});
  }
  const auto all = gathered(own);
  PartCosts costs;
  for (int part = 0; part < chunks * stages; ++part) {
    const double* its = &all[static_cast<std::size_t>(part % stages)]
                            [static_cast<std::size_t>(part / stages * 4)];
    costs.times.push_back({its[0], its[1], its[2]});
    costs.memory.push_back(its[3]);
  }
  return costs;
}

void print(const std::vector<double>& numbers, std::ostream& out) {
  for (const double number : numbers) {
    out << " " << number;
  }
}

void reset_gradients(const PipelineLayer& layers) {
  for (const at::Tensor& each : layers->parameters()) {
    each.mutable_grad().reset();
  }
}

class GptTraining final : public Training {
 public:
  explicit GptTraining(const std::string& name)
      : GptTraining(
            name == "synthesised" ? synthesised(measured(kChunks))
                                  : known(name)) {}

  double step() override {
    reset_gradients(stages_.layers);
    const double loss = run();
    optimizer_.step();
    return loss;
  }

  void print_more(std::ostream& out) override {
    print(bubbles(pipeline_), out);
    print(peaks_, out);
  }

 private:
  explicit GptTraining(const Schedule& schedule)
      : stages_(schedule.chunks, schedule.order),
        pipeline_(
            stages_.layers.ptr(),
            {.microbatches = kMicrobatches, .plan = schedule}),
        optimizer_(stages_.layers->parameters(), 0.01) {
    const auto memory = measured(schedule.chunks).memory;
    double part = 0; // the mean of this stage's
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      part += memory[static_cast<std::size_t>(
                  schedule.part_of(get_rank(), chunk))] /
          schedule.chunks;
    }
    const auto formula = peak_formula(schedule, get_rank());
    peaks_ = {
        measured_peak(),
        stage_peak(schedule, get_rank(), memory, 1),
        formula ? *formula * part : -1};
  }

  static PartCosts measured(int chunks) {
    GptStages stages(chunks);
    return measure(stages);
  }

  double run() {
    return pipeline_
        .forward_backward(
            stages_.example_input(0, GptStages::kRows), stages_.labels())
        .item<double>();
  }

  // Of a step that finds gradients to add to.
  double measured_peak() {
    run();
    TensorMemory memory;
    memory.reset_peak();
    const auto before = memory.current();
    run();
    return static_cast<double>(memory.peak() - before);
  }

  GptStages stages_;
  PipelineParallel pipeline_;
  torch::optim::SGD optimizer_;
  std::vector<double> peaks_;
};

class StageAlone final : public Training {
 public:
  StageAlone() : stages_(1), optimizer_(stages_.layers->parameters(), 0.01) {}

  double step() override {
    reset_gradients(stages_.layers);
    const long rows = GptStages::kRows / kMicrobatches;
    for (int i = 0; i < kMicrobatches; ++i) {
      const Tensors outputs =
          stages_.layers->forward(0, stages_.example_input(get_rank(), rows));
      if (get_rank() + 1 == get_world_size()) {
        gpt_loss(stages_.options)(outputs, stages_.labels(rows)).backward();
      } else {
        outputs[0].backward(torch::ones_like(outputs[0]));
      }
    }
    optimizer_.step();
    return 0;
  }

 private:
  GptStages stages_;
  torch::optim::SGD optimizer_;
};

class SleepingTraining final : public Training {
 public:
  explicit SleepingTraining(const std::string& name)
      : SleepingTraining(
            name == "synthesised" ? synthesised(equal_costs()) : known(name)) {}

  double step() override {
    return pipeline_.forward_backward({torch::ones({kMicrobatches, 1})}, {})
        .item<double>();
  }

  void print_more(std::ostream& out) override {
    print(bubbles(pipeline_, pipeline::PartTimes()), out);
  }

 private:
  explicit SleepingTraining(const Schedule& schedule)
      : layers_(make_layers(schedule)),
        pipeline_(
            layers_.ptr(), {.microbatches = kMicrobatches, .plan = schedule}) {}

  static PartCosts equal_costs() {
    const auto parts = static_cast<std::size_t>(kChunks * get_world_size());
    PartCosts costs{
        .times = std::vector<pipeline::PartTimes>(parts),
        .memory = std::vector<double>(parts, 1)};
    costs.times[0] = {1, 0, 2}; // has no input that needs a gradient
    return costs;
  }

  static PipelineLayer make_layers(const Schedule& schedule) {
    const double seconds = 0.04 / schedule.chunks;
    const std::vector<LayerDesc> layers(
        static_cast<std::size_t>(schedule.parts()),
        pipeline::layer<testing::SleepingLayerImpl>(seconds, seconds, seconds));
    PipelineLayerOptions options;
    options.chunks = schedule.chunks;
    options.order = schedule.order;
    options.loss_fns = {[](const Tensors& outputs, const Tensors& /*labels*/) {
      return outputs[0].mean();
    }};
    return PipelineLayer(layers, options);
  }

  PipelineLayer layers_;
  PipelineParallel pipeline_;
};

std::unique_ptr<Training> load() {
  std::string kind;
  std::string name;
  std::cin >> kind >> name;
  if (kind == "sleeping") {
    return std::make_unique<SleepingTraining>(name);
  }
  if (name == "alone") {
    return std::make_unique<StageAlone>();
  }
  return std::make_unique<GptTraining>(name);
}

} // namespace
} // namespace argosy::bench

int main() {
  return argosy::bench::serve_as_rank(argosy::bench::load);
}
