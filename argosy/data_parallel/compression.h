#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "argosy/data_parallel/bucket_hook.h"

// Hooks that compress gradients before they are sent. Each rank makes its own,
// with the same options, and passes it in DataParallelOptions::hook.
namespace argosy {

// Send gradients as float16 or bfloat16. The average is rounded once.
std::shared_ptr<data_parallel::BucketHook> fp16_compression();
std::shared_ptr<data_parallel::BucketHook> bf16_compression();

struct PowerSgdOptions {
  std::int64_t rank = 2; // of the approximation
  // Steps with the plain average first: early gradients change too fast for the
  // approximation.
  int start_step = 10;
  // Matrices that would not shrink by this factor are sent uncompressed.
  double min_compression = 2;
};

// PowerSGD: sends a low-rank approximation of each matrix and adds the error of
// the approximation to the next gradient.
std::shared_ptr<data_parallel::BucketHook> power_sgd(
    PowerSgdOptions options = {});

struct DgcOptions {
  int rampup_begin_step = 0; // plain momentum before this step
  int rampup_step = 1; // number of steps over which `sparsity` is traversed
  // The fraction of entries that is not sent, in equal intervals of the
  // ramp-up.
  std::vector<double> sparsity = {0.999};
  double momentum = 0.9;
  // Of a parameter: this multiple of it is added to its gradient, after
  // clipping. Null: none.
  std::function<double(const at::Tensor& parameter)> weight_decay;
  // Clips each rank's gradients to clip_norm / sqrt(number of ranks). 0: none.
  double clip_norm = 0;
  std::int64_t min_count = 16384; // smaller gradients are sent uncompressed
};

// Deep gradient compression: sends only the largest entries of the accumulated
// gradients; the rest accumulates further. The hook applies momentum itself,
// and the weight decay that goes into it, so use it with an optimizer without
// either.
std::shared_ptr<data_parallel::BucketHook> deep_gradient_compression(
    DgcOptions options = {});

} // namespace argosy
