#pragma once

#include <memory>
#include <vector>

#include "argosy/data_parallel/bucket_hook.h"

// Hooks that send less than the gradients. Each rank makes its own and gives it
// to DataParallelOptions::hook.
namespace argosy {

// Sends halves (or bfloat16): half the bytes. The sum is rounded once.
std::shared_ptr<data_parallel::BucketHook> fp16_compression();
std::shared_ptr<data_parallel::BucketHook> bf16_compression();

struct PowerSgdOptions {
  std::int64_t rank = 2; // of the approximation
  // Plain averages before; the approximation is poor while gradients are wild.
  int start_step = 10;
  // Matrices that would not shrink by this factor are sent as they are.
  double min_compression = 2;
};

// Sends a low-rank approximation of each matrix, and adds what it left out to
// the next gradient.
std::shared_ptr<data_parallel::BucketHook> power_sgd(
    PowerSgdOptions options = {});

struct DgcOptions {
  int rampup_begin_step = 0; // plain momentum before
  int rampup_step = 1; // steps over which the list of sparsities is walked
  std::vector<double> sparsity = {0.999}; // parts that are not sent
  double momentum = 0.9;
  double clip_norm = 0;           // 0: none; else n^-1/2 of it for each rank
  std::int64_t min_count = 16384; // smaller gradients are sent as they are
};

// Deep gradient compression: sends only the largest entries of what has come
// together; the rest waits. The momentum is in here, so that the optimizer must
// have none: it gets steps, not gradients.
std::shared_ptr<data_parallel::BucketHook> deep_gradient_compression(
    DgcOptions options = {});

} // namespace argosy
