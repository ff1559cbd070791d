#include "argosy/world/data_ranks.h"

#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/thread_context.h"
#include "argosy/world/adopt.h"
#include "argosy/world/job_key.h"

namespace argosy {

namespace {

// Beside ThreadBinding, because that one includes a torch header, and samplers
// need none.
struct DataRanksOfThread {
  std::shared_ptr<DataRanksOfWorld> ranks;
  int job_size = 0;
};

// An environment that describes no job, or none completely, is one process.
int size_by_environment() {
  const Environment env = Environment::of_process();
  const Adoption found = examine(env, {.job_key = local_job_key(env)});
  return found.error.empty() ? found.info.size : 1;
}

} // namespace

DataRanks DataRanksOfWorld::take() {
  const std::lock_guard lock(mutex_);
  is_taken_ = true;
  return ranks_;
}

void DataRanksOfWorld::set(const DataRanks& ranks) {
  const std::lock_guard lock(mutex_);
  ARGOSY_CHECK(
      is_set_ || !is_taken_ || ranks == ranks_,
      "[mesh.hybrid] a sampler that was made before fleet::init() reads part "
      "{} of {} of the data, but with these degrees this rank reads part {} of "
      "{}: make samplers after fleet::init(), or give them num_replicas and "
      "rank",
      ranks_.rank,
      ranks_.size,
      ranks.rank,
      ranks.size);
  ranks_ = ranks;
  is_set_ = true;
}

void bind_data_ranks(std::shared_ptr<DataRanksOfWorld> ranks, int job_size) {
  of_thread<DataRanksOfThread>() = {std::move(ranks), job_size};
}

DataRanks current_data_ranks(const char* op) {
  const DataRanksOfThread& bound = of_thread<DataRanksOfThread>();
  if (bound.ranks) {
    return bound.ranks->take();
  }
  const int size = bound.job_size > 0 ? bound.job_size : size_by_environment();
  ARGOSY_CHECK(
      size == 1,
      "[{}] this thread belongs to no world yet, and the job has {} ranks: "
      "call init_parallel_env() or fleet::init() first, or give num_replicas "
      "and rank",
      op,
      size);
  return {};
}

} // namespace argosy
