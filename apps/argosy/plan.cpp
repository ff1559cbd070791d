// `argosy plan pipeline`: simulates and draws a pipeline schedule.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "apps/argosy/commands.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/schedule.h"
#include "argosy/pipeline/schedule_chart.h"
#include "argosy/pipeline/schedule_json.h"
#include "argosy/pipeline/schedules/schedules.h"
#include "argosy/pipeline/synthesize.h"

namespace argosy::cli {

namespace {

constexpr const char* kSynthesised = "synthesised";

struct PipelineOptions {
  pipeline::SynthesisInput input{.stages = 0, .microbatches = 0};
  std::string schedule = "1f1b";
  int chunks = 0; // 0: the schedule's default
  std::vector<double> times{1, 1, 1};
  double message = 0;
  std::string times_file;
  std::string load;
  std::string save;
  std::string svg;
};

bool is_synthesised(const std::string& schedule) {
  return schedule == kSynthesised || schedule == "synthesized";
}

void add_model(CLI::App& app, PipelineOptions& options) {
  const CLI::Range counts(1, 10'000);
  auto* stages = app.add_option(
      "--stages,-p", options.input.stages, "Number of pipeline stages");
  auto* microbatches = app.add_option(
      "--microbatches,-m",
      options.input.microbatches,
      "Number of microbatches per step");
  auto* schedule = app.add_option(
      "--schedule,-s",
      options.schedule,
      join(pipeline::schedule_names(), ", ") + ",\nor " + kSynthesised +
          ": search for the fastest one that fits into memory [1f1b]");
  auto* chunks = app.add_option(
      "--chunks",
      options.chunks,
      "Model parts per stage [2 for interleaved and zbv, else 1]");
  auto* load = app.add_option(
      "--load", options.load, "Draw a schedule that --save wrote");
  for (auto* count : {stages, microbatches, chunks}) {
    count->check(counts)->excludes(load);
  }
  load->excludes(schedule);
}

void add_costs(CLI::App& app, PipelineOptions& options) {
  auto* times =
      app.add_option(
             "--times",
             options.times,
             "F,I,W: time of forward, of backward for inputs and of backward "
             "for weights,\nof one part and one microbatch, in any unit "
             "[1,1,1]")
          ->delimiter(',')
          ->expected(3);
  auto* message =
      app.add_option("--message", options.message, "Time of a message [0]");
  app.add_option(
         "--times-file",
         options.times_file,
         "JSON file with the times and the memory of each part\n"
         "(docs/pipeline-schedules.md)")
      ->excludes(times)
      ->excludes(message);
  app.add_option(
      "--memory-cap",
      options.input.memory_cap,
      "Most that a stage may keep between forward and backward, in\n"
      "microbatches, or in the memory unit of the times file [no limit]");
  app.add_option(
      "--seconds", options.input.seconds, "Approximate search time [1]");
  app.add_option("--seed", options.input.seed, "Random seed of the search [0]");
}

void add_outputs(CLI::App& app, PipelineOptions& options) {
  app.add_option("--svg", options.svg, "Also draw the schedule into this file");
  app.add_option(
      "--save", options.save, "Write the schedule to this file, as JSON");
}

// make_schedule() knows the names; the smallest shape keeps the check cheap. It
// does not know the synthesised schedule, which this command adds.
void check_name(const std::string& schedule) {
  try {
    pipeline::make_schedule(schedule, 1, 1);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(str(error.what(), ", or synthesised"));
  }
}

int chunks_of(const PipelineOptions& options) {
  if (is_synthesised(options.schedule)) {
    return std::max(options.chunks, 1);
  }
  check_name(options.schedule);
  if (options.chunks != 0) {
    return options.chunks;
  }
  // The default comes from the schedule itself, except for "interleaved", which
  // takes any number of chunks.
  const auto one = pipeline::make_schedule(options.schedule, 1, 1);
  return one.name == "interleaved" ? 2 : one.chunks;
}

pipeline::PartCosts costs_of(const PipelineOptions& options, int parts) {
  if (!options.times_file.empty()) {
    const auto text = read_file(options.times_file);
    ARGOSY_CHECK(text, "[plan.pipeline] there is no file ", options.times_file);
    return pipeline::costs_from_json(
        *text, "[plan.pipeline] " + options.times_file);
  }
  pipeline::PartCosts costs;
  costs.message = options.message;
  costs.times.assign(
      static_cast<std::size_t>(parts),
      {options.times[0], options.times[1], options.times[2]});
  return costs;
}

pipeline::Schedule load(const std::string& path) {
  const auto text = read_file(path);
  ARGOSY_CHECK(text, "[plan.pipeline] there is no file ", path);
  return pipeline::schedule_from_json(*text, "[plan.pipeline] " + path);
}

pipeline::Schedule make(PipelineOptions& options) {
  pipeline::SynthesisInput& input = options.input;
  if (!options.load.empty()) {
    const auto schedule = load(options.load);
    input.costs = costs_of(options, schedule.parts());
    return schedule;
  }
  ARGOSY_CHECK(
      input.stages > 0 && input.microbatches > 0,
      "[plan.pipeline] expected --stages and --microbatches, as in "
      "--stages 4 --microbatches 8, or --load FILE");
  input.effort = input.seconds;
  input.chunks = chunks_of(options);
  pipeline::check_shape(
      {.name = options.schedule,
       .stages = input.stages,
       .microbatches = input.microbatches,
       .chunks = input.chunks});
  input.costs = costs_of(options, input.stages * input.chunks);
  if (is_synthesised(options.schedule)) {
    return pipeline::synthesize(input);
  }
  return pipeline::make_schedule(
      options.schedule, input.stages, input.microbatches, input.chunks);
}

void check_cap(
    const pipeline::Schedule& schedule,
    const pipeline::Simulation& simulation,
    double cap) {
  const auto& peaks = simulation.peak_memory;
  const auto most = std::max_element(peaks.begin(), peaks.end());
  ARGOSY_CHECK(
      // Sums of the same sizes in another order differ by rounding.
      *most <= cap * (1 + 1e-9),
      "[plan.pipeline] {} keeps {} at stage {}, --memory-cap is {}; --schedule "
      "{} finds one within it",
      schedule.name,
      *most,
      most - peaks.begin(),
      cap,
      kSynthesised);
}

int plan_pipeline(PipelineOptions& options) {
  const auto schedule = make(options);
  const auto simulation = pipeline::simulate(schedule, options.input.costs);
  check_cap(schedule, simulation, options.input.memory_cap);
  const bool color =
      ::isatty(STDOUT_FILENO) == 1 && ::getenv("NO_COLOR") == nullptr;
  std::cout << pipeline::draw_text(schedule, simulation, {.color = color});
  if (!options.svg.empty()) {
    write_file(options.svg, pipeline::draw_svg(schedule, simulation));
  }
  if (!options.save.empty()) {
    write_file(options.save, pipeline::to_json(schedule));
  }
  return 0;
}

} // namespace

int plan(const std::vector<std::string>& arguments) {
  CLI::App app("Shows what would run, without running it.", "argosy plan");
  app.require_subcommand(1);
  PipelineOptions options;
  CLI::App* pipeline = app.add_subcommand(
      "pipeline",
      "Draws a pipeline schedule, with its bubble rate and the peak "
      "activations "
      "of each\nstage (docs/pipeline-schedules.md).");
  add_model(*pipeline, options);
  add_costs(*pipeline, options);
  add_outputs(*pipeline, options);
  try {
    // CLI11 expects the words in reverse order.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return plan_pipeline(options);
}

} // namespace argosy::cli
