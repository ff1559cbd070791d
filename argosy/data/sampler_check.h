#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "argosy/data/batch_plan.h"

namespace argosy {
class Notes;
}

namespace argosy::data {

// "rank 1 has 10 batches in an epoch and rank 0 has 11": empty if all ranks
// have equally many. A pure function.
std::string uneven_batches(
    std::int64_t dataset_size, const SamplerOptions& options);

// What the last sampler of the calling thread's world says of it.
std::string uneven_batches_of_world();

// A sampler that a rank makes.
struct MadeSampler {
  std::string site; // the line of the program that makes it
  std::int64_t dataset_size = 0;
  SamplerOptions options; // with the ranks
  bool is_of_world = false;
};

// Compares the samplers that the ranks of a world make in the same line of the
// program, the first of each rank with the first of the others and so on,
// without waiting for any. A sampler that shares the data among all ranks must
// be the same on all of them; others may belong to a part of the job, or to one
// rank.
class SamplerCheck {
 public:
  SamplerCheck() = default; // compares nothing

  // For the sampler that the calling thread makes. Throws as check().
  explicit SamplerCheck(const MadeSampler& made);

  // To be called on each use; the first one looks again. Throws
  // InvalidArgument, naming the ranks and the values that differ.
  void check();

 private:
  void look(Notes& notes) const;

  std::weak_ptr<Notes> notes_; // of the world, if it still exists
  std::string key_;
  std::string own_;
  bool is_of_world_ = false;
  int looks_left_ = 0;
};

} // namespace argosy::data
