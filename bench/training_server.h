#pragma once

#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include "argosy/argosy.h"
#include "argosy/heap/allocator.h"

// The ranks of benches that are started from Python. "load ..." on standard
// input makes a training and runs three steps, and answers their losses; "run
// 5" runs five steps, and answers the seconds they took.
namespace argosy::bench {

class Training {
 public:
  virtual ~Training() = default;
  virtual double step() = 0; // returns the loss
  // Appends to the answer of a run.
  virtual void print_more(std::ostream&) {}
};

inline double seconds_of(
    Training& training, long steps, const GroupPtr& group) {
  barrier(group);
  const auto began = std::chrono::steady_clock::now();
  for (long i = 0; i < steps; ++i) {
    training.step();
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - began;
  return took.count();
}

// `load` reads the words after "load". Returns at the end of the input.
inline void serve_trainings(
    const std::function<std::unique_ptr<Training>()>& load,
    const GroupPtr& group = nullptr) {
  std::cout << std::setprecision(9);
  std::unique_ptr<Training> training;
  std::string word;
  while (std::cin >> word) {
    if (word == "load") {
      training.reset(); // frees its memory first
      training = load();
      for (int i = 0; i < 3; ++i) {
        std::cout << training->step() << " ";
      }
    } else {
      long steps = 0;
      std::cin >> steps;
      std::cout << seconds_of(*training, steps, group);
      training->print_more(std::cout);
    }
    std::cout << std::endl;
  }
}

// main() of a single-threaded rank. Trainings get a group of this backend.
inline int serve_as_rank(
    const std::function<std::unique_ptr<Training>(const GroupPtr&)>& load,
    const std::string& backend) {
  return record([&] {
    const auto world = init_parallel_env();
    const auto group = new_group({}, backend);
    torch::set_num_threads(1);
    keep_tensor_memory();
    serve_trainings([&] { return load(group); }, group);
    destroy_process_group();
  });
}
// The same for trainings that use the group of all ranks.
inline int serve_as_rank(
    const std::function<std::unique_ptr<Training>()>& load) {
  return record([&] {
    const auto world = init_parallel_env();
    torch::set_num_threads(1);
    keep_tensor_memory();
    serve_trainings(load);
    destroy_process_group();
  });
}

} // namespace argosy::bench
