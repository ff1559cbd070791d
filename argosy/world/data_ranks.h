#pragma once

#include <memory>
#include <mutex>

namespace argosy {

class World;

// Which part of the data a rank reads, and of how many parts. Ranks that train
// on the same samples together (tensor, sequence or pipeline parallel ones)
// have the same rank here. No torch header.
struct DataRanks {
  int rank = 0;
  int size = 1;

  bool operator==(const DataRanks&) const = default;
};

// Returns those of the calling thread's world: what the degrees of
// fleet::init() make of it, or else each of its ranks. In a program of one
// process, that is part 0 of 1. Throws InvalidArgument, whose message starts
// with `op`, when the job has several ranks and the calling thread belongs to
// no world yet.
DataRanks current_data_ranks(const char* op);

// The data ranks of one world, which owns it. Thread-safe.
class DataRanksOfWorld {
 public:
  explicit DataRanksOfWorld(DataRanks all) : ranks_(all) {}

  DataRanks take();

  // Throws InvalidArgument when somebody took other ones before the first call:
  // they would read data that is not theirs.
  void set(const DataRanks& ranks);

 private:
  std::mutex mutex_;
  DataRanks ranks_;       // guarded by mutex_
  bool is_taken_ = false; // guarded by mutex_
  bool is_set_ = false;   // guarded by mutex_
};

// Those of a world: all its ranks until somebody sets others.
std::shared_ptr<DataRanksOfWorld> data_ranks_of(World& world);

// What current_data_ranks() finds in the calling thread. `ranks` null: the
// thread belongs to no world; `job_size` is the size of the job that it should
// join, 0 if the environment of the process says it.
void bind_data_ranks(std::shared_ptr<DataRanksOfWorld> ranks, int job_size = 0);

} // namespace argosy
