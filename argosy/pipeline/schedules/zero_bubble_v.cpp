#include <algorithm>
#include <array>

#include "argosy/pipeline/schedules/by_stage.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

// Writes the steps of a stage. Each pass of each chunk takes microbatches in
// order, so pass and chunk determine the step.
class Writer {
 public:
  explicit Writer(int microbatches) : microbatches_(microbatches) {}

  // Counts, but does not write, steps beyond the last microbatch.
  void add(Pass pass, int chunk) {
    const int batch = done(pass, chunk)++;
    if (batch < microbatches_) {
      steps_.push_back({pass, chunk, batch});
    }
  }

  void forward(int chunk) { add(Pass::kForward, chunk); }
  void input(int chunk) { add(Pass::kBackwardInput, chunk); }
  void both(int chunk) {
    input(chunk);
    add(Pass::kBackwardWeight, chunk);
  }

  int& done(Pass pass, int chunk) {
    return done_[static_cast<std::size_t>(pass)]
                [static_cast<std::size_t>(chunk)];
  }

  const Steps& steps() const { return steps_; }

 private:
  int microbatches_;
  std::array<std::array<int, 2>, 4> done_{};
  Steps steps_;
};

// Warm-up until the first microbatch is back: forwards down the V, then, as
// they come back up, of both chunks in turn, then backwards of the upper chunk.
void start(Writer& writer, int stage, int stages) {
  for (int i = 0; i < 2 * (stages - stage) - 1; ++i) {
    writer.forward(0);
  }
  for (int i = 0; i < stage; ++i) {
    writer.forward(1);
    writer.forward(0);
  }
  for (int i = 0; i < stages - stage; ++i) {
    writer.forward(1);
    writer.both(1);
  }
}

// Steady state: all passes of both chunks in turn, while forwards are left.
void go_on(Writer& writer, int microbatches) {
  while (writer.done(Pass::kForward, 1) < microbatches) {
    // Chunk 0 runs ahead, so its forwards end before those of chunk 1.
    if (writer.done(Pass::kForward, 0) < microbatches) {
      writer.forward(0);
    }
    writer.both(0);
    writer.forward(1);
    writer.both(1);
  }
}

// Drain: backwards of inputs that other stages wait for come first; those of
// weights fill the gaps and the end.
void end(Writer& writer, int stage, int stages) {
  for (int i = 0; i < stage; ++i) {
    writer.input(0);
    writer.input(1);
  }
  for (int i = 0; i < stages - stage; ++i) {
    writer.both(0);
  }
  // Nobody waits for these; they fill the time until all stages are done.
  for (const int chunk : {1, 0}) {
    const int inputs = writer.done(Pass::kBackwardInput, chunk);
    while (writer.done(Pass::kBackwardWeight, chunk) < inputs) {
      writer.add(Pass::kBackwardWeight, chunk);
    }
  }
}

} // namespace

Schedule zero_bubble_v(int stages, int microbatches) {
  const Schedule shape{
      .name = "zbv",
      .stages = stages,
      .microbatches = microbatches,
      .chunks = 2,
      .order = PartOrder::kV};
  // Too few microbatches to fill the V: build the full schedule and leave out
  // the missing ones.
  const int filled = std::max(microbatches, 2 * stages - 1);
  return by_stage(shape, [&](int stage) {
    Writer writer(microbatches);
    start(writer, stage, stages);
    go_on(writer, filled);
    end(writer, stage, stages);
    return writer.steps();
  });
}

} // namespace argosy::pipeline
