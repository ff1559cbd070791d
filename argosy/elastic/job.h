#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace argosy::checkpoint {
class State;
}

// Training that goes on, without a checkpoint, when ranks die.
namespace argosy::elastic {

struct Options {
  // How long the others wait for the replacement of a rank that died, which the
  // launcher starts.
  std::chrono::milliseconds replacement_timeout = std::chrono::minutes(5);
  // A rank that died so often at the same step ends the job; so does a step
  // that failed so often though no rank died.
  int deaths_at_step = 3;
};

// One world of a job: from a failure to the next one.
class Job {
 public:
  // Trains up to the step `num_steps`, counted from the beginning of the job;
  // those that are done are not repeated. A step consists of two functions:
  //
  // `compute` runs forward and backward, from zeroed gradients on, and
  // communicates. When a rank is lost meanwhile, what it has changed is undone
  // on all ranks, and it runs again.
  // `update` steps the optimizer. It runs once all ranks have computed, and
  // then on every one of them, whoever dies. It must not communicate, nor
  // change anything but optimizers, what they step, schedules, averages,
  // scalers, and numbers, texts and JSON that are alike on all ranks.
  //
  // All ranks call it alike. Throws what the functions throw.
  void train(
      std::int64_t num_steps,
      const std::function<void()>& compute,
      const std::function<void()>& update);

  // How many steps are done.
  std::int64_t step() const;
  // Counts the worlds of the job, from 0. Not alike on runs of a program.
  std::int64_t epoch() const;

  class Impl;
  explicit Job(Impl& impl) : impl_(impl) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

 private:
  Impl& impl_;
};

// Runs a job whose ranks may die at any time. `argosy run --restart-policy
// worker` starts the dead one again, the other processes keep running, and the
// replacement gets its state from their memory: parameters and all that is bit
// for bit as if nobody had died.
//
//   checkpoint::State state{net, optimizer, loader};
//   elastic::run(state, {}, [&](elastic::Job& job) {
//     DataParallel model(net); // of this world
//     job.train(1000, [&] { ...; loss.backward(); }, [&] { optimizer.step();
//     });
//   });
//
// Makes a world, binds it to the calling thread and calls `body`; after each
// failure it does so again with a world of the same size, in which ranks have
// the same numbers. So what belongs to a world (wrappers, groups) is made in
// `body`, and what is to last (modules, optimizers, loaders, the state) outside
// of it. Each rank must have its whole state (DataParallel, not ZeRO or tensor
// parallelism).
//
// All ranks call it alike, as the first thing that communicates. Blocks until
// `body` has returned on all ranks. Do not catch `...` in it without throwing
// again: a type of its own unwinds it after a failure.
//
// Throws what `body` throws, except PeerLost and TimeoutError of the present
// world; TimeoutError, naming the rank, when a replacement does not come;
// RankFailed when this rank died at one step again and again; Error when a step
// fails again and again though no rank dies.
void run(
    checkpoint::State& state,
    const Options& options,
    const std::function<void(Job&)>& body);

} // namespace argosy::elastic
