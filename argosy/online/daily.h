#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/data/slots/slot_dataset.h"
#include "argosy/online/schedule.h"

namespace torch::nn {
class Module;
}
namespace argosy::data {
class InMemoryDataset;
}

namespace argosy::online {

enum class PassShuffle {
  None,
  Local,  // within each worker
  Global, // between all workers
};

struct DailyOptions {
  Schedule schedule{};
  // Folder of checkpoints and of the done file, which all processes see: local,
  // or mounted.
  std::string output;
  // Folder that serving::Reader follows, where schedule.export_every is set.
  std::string exports = {};
  // Beside tables, exports have the weights of this module that are no tables.
  // Must outlive the job.
  const torch::nn::Module* dense = nullptr;

  data::SlotDatasetOptions dataset{};
  PassShuffle shuffle = PassShuffle::Global;
  bool preload = true; // read the next pass beside the training of this one
  // How long the files of the next pass may take to come.
  std::chrono::milliseconds file_limit = std::chrono::hours(24);
  int keep = 2; // checkpoints; 0: all
};

// What a pass gives to the job's function, on each worker.
struct DailyPass {
  const PassPlan& plan;
  data::InMemoryDataset& dataset; // this worker's samples, shuffled
  std::int64_t num_batches = 0;   // the most of any worker: see TrainOptions
};

struct DailyResult {
  int num_passes = 0;     // that this run has trained
  bool resumed = false;   // from a checkpoint
  Progress progress = {}; // of all runs
};

// A job of many passes on a parameter server, from the last checkpoint of the
// done file to the end of the schedule. All workers call it alike, behind
// fleet::init_worker(), and when all tables and dense parameters are there.
//
// For each pass: each worker reads its part of the files, samples are shuffled,
// `train` trains on them, and what the plan says is saved. A checkpoint counts
// once its line is in the done file. When any process is killed, start all of
// them again: training goes on behind the last line, with the rows that were
// saved there, so each pass counts once. What is exported appears behind that
// line, so a reader never sees what is trained again. In sync mode the result
// has the bits of a job that was not killed.
DailyResult train_daily(
    const DailyOptions& options,
    const std::function<void(const DailyPass&)>& train);

} // namespace argosy::online
