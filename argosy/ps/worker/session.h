#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/client/communicator.h"
#include "argosy/ps/client/row_source.h"
#include "argosy/ps/table/config.h"

namespace at {
class Tensor;
}

namespace argosy::ps {

// When new dense values come, in async and half-async mode.
struct DensePulls {
  int every = 1;       // steps between two pulls
  bool beside = false; // they arrive beside the next step, not before it
};

struct SessionOptions {
  ClientOptions client{};
  CommunicatorOptions communicator{};
  DensePulls dense_pulls{};
};

struct LookupOptions {
  std::int64_t padding_idx = -1; // this id gives zeros and gets no gradient
  bool is_test = false;          // no gradients, no new rows
};

// How an Embedding of LibTorch uses rows.
struct BagOptions {
  int mode = 0; // 0 sum, 1 mean, 2 max
  bool include_last_offset = false;
};

// A worker's training against a parameter server: lookups pull rows, and step()
// pushes the gradients that backward() left. Workers add the same tables and
// parameters in the same order.
//
//   auto rows = session.lookup(table, ids);
//   loss(model(rows)).backward();
//   session.step();
//
// Thread-safe; lookups and the step() that belongs to them are of one thread.
class Session {
 public:
  // Blocks until servers are there. Throws as Client.
  explicit Session(SessionOptions options);
  ~Session();

  Client& client();
  Communicator& communicator();

  // Makes a sparse table, or finds the one of that name. Returns its id, which
  // replaces the one in `config`. In geo mode the worker trains with the
  // config's rule.
  std::uint32_t add_table(SparseConfig config, const CacheOptions& cache = {});

  bool has_table(const std::string& name) const;

  // Rows 0, 1, ... of a table of accessor Embedding begin with these values,
  // [rows, dim], unless servers have rows of it (which they loaded). Worker 0's
  // count; others may pass an undefined tensor. Blocks until all workers have
  // called it.
  void set_rows(std::uint32_t table, const at::Tensor& values);

  // Rows of a tensor of ids (>= 0), [..., pull_dim]. Equal ids are pulled once.
  // Throws InvalidArgument for negative ids, naming the table.
  at::Tensor lookup(
      std::uint32_t table,
      const at::Tensor& ids,
      const LookupOptions& options = {});
  // The same, reduced over bags: see torch::nn::EmbeddingBag.
  at::Tensor lookup_bag(
      std::uint32_t table,
      const at::Tensor& ids,
      const at::Tensor& offsets,
      const BagOptions& bag = {},
      const LookupOptions& options = {});

  // Starts to pull what a later lookup() of the same ids needs. It runs beside
  // the step; the rows are those after the step that is under way.
  void prefetch(std::uint32_t table, const at::Tensor& ids);

  // Parameters that servers hold and update; the worker has copies. Worker 0's
  // values count. Blocks until all workers have called it. In geo mode the
  // worker's own optimizer updates them. Float. Each call makes a table of its
  // own, and returns its id.
  std::uint32_t add_dense(
      std::vector<at::Tensor> parameters, DenseConfig config = {});
  // Makes the copies those of the servers.
  void pull_dense();

  // Forgets rows that this worker keeps (geo, caches, prefetches): after the
  // servers have loaded others.
  void forget_rows();

  // For schedules: from the next step on. All workers call it alike; worker 0's
  // rate counts, and in geo mode each worker's own. In sync mode it comes
  // between two steps. Of dense tables, nothing changes in geo mode.
  void set_learning_rate(std::uint32_t table, float rate);

  // Pushes the gradients of the lookups since the last step, and of the dense
  // parameters, as the mode says; then takes the new dense values. Gradients of
  // dense parameters are set to zero, unless in geo mode.
  void step();

  // Waits until servers have everything.
  void flush();

  // The most batches of this worker that servers did not have: 0 in sync mode,
  // else at most communicator().max_staleness_bound().
  int max_staleness() const;

  // How many lookups found their rows prefetched; hits of the table's cache.
  std::uint64_t num_prefetched() const;
  std::uint64_t num_cache_hits(std::uint32_t table) const;
  // The age of the oldest row that the cache has given out, in steps.
  std::int64_t oldest_cache_hit(std::uint32_t table) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::ps
