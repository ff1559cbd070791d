#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/client/communicator.h"
#include "argosy/ps/worker/unique_ids.h"

namespace argosy::ps {

// The rows that lookups gave to graphs, until the step that takes their
// gradients. Each thread has a tape of its own. Thread-safe.
class LookupTape {
 public:
  // `rows` is a leaf of the graph, with a row for each key and perhaps more.
  void add(std::uint32_t table, UniqueIds ids, at::Tensor rows);

  // What backward() left in the rows of this thread's lookups, added up by
  // table and key; the tape is empty then.
  Gradients take(const Client& client);

 private:
  struct Lookup {
    std::uint32_t table = 0;
    UniqueIds ids{};
    at::Tensor rows{};
  };

  static std::vector<float> records_of(
      const Lookup& lookup, const RowLayout& layout);

  std::mutex mutex_;
  std::map<std::thread::id, std::vector<Lookup>> lookups_; // guarded by mutex_
};

} // namespace argosy::ps
