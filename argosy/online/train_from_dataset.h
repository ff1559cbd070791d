#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace argosy::data {
class SlotDataset;
struct SlotBatch;
} // namespace argosy::data
namespace torch::nn {
class Module;
}

namespace argosy::online {

// Which batch a step gets.
struct BatchPlace {
  int thread = 0;
  int pass = 0;           // over the dataset, from 0
  std::int64_t batch = 0; // of the pass, from 0; threads take them in turn
};

// What is done with a batch. Returns a value for each name of
// TrainOptions::fetch. Threads call it at the same time.
using BatchStep = std::function<std::vector<double>(
    const data::SlotBatch& batch, const BatchPlace& place)>;

struct TrainOptions {
  // Threads that take batches. They do not wait for each other: parameters that
  // they share are read and written without locks (see share_parameters). One:
  // the calling thread takes all, in order.
  int num_threads = 1;
  int num_passes = 1; // over what is loaded

  std::vector<std::string> fetch = {}; // names of the values
  std::int64_t print_period = 100;     // batches; 0: nothing is printed
  // Gets a line with the means since the last one; unset: standard error.
  std::function<void(const std::string& line)> print = {};

  // No step begins after this time: TimeoutError. 0: none.
  std::chrono::milliseconds limit = std::chrono::milliseconds(0);

  // Where all workers must make as many steps (servers in sync mode), the most
  // batches of a worker: fill_up() is called once for each that is not there,
  // at the end of each pass. With one thread.
  std::int64_t min_batches = 0;
  std::function<void()> fill_up = {};
};

struct TrainResult {
  std::int64_t num_batches = 0; // without those that were filled up
  std::int64_t num_samples = 0;
  double seconds = 0;
  std::vector<double> fetched = {}; // means over all batches
};

// Takes all batches of the dataset. When a step throws, the other threads end
// after theirs, and the error is thrown again, of the same class, with thread,
// pass, batch and the ids of its samples before its message. Errors of the
// dataset have the file and line already. Threads belong to the calling
// thread's world.
TrainResult train_from_dataset(
    data::SlotDataset& dataset,
    const BatchStep& step,
    const TrainOptions& options = {});

// The same without gradients.
TrainResult infer_from_dataset(
    data::SlotDataset& dataset,
    const BatchStep& step,
    const TrainOptions& options = {});

// Parameters and buffers of `replica` get the memory of those of `shared`;
// gradients stay its own. So each thread has a module, and all train the same
// weights. Throws InvalidArgument unless both have the same names and shapes.
void share_parameters(
    const torch::nn::Module& shared, torch::nn::Module& replica);

} // namespace argosy::online
