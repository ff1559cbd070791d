#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "argosy/ps/client/client.h"
#include "argosy/ps/client/communicator.h"
#include "argosy/ps/client/geo_table.h"
#include "argosy/ps/client/row_cache.h"
#include "argosy/ps/table/config.h"

namespace argosy::ps {

// Rows of a table that a worker keeps.
struct CacheOptions {
  std::size_t rows = 0;   // 0: no cache
  std::int64_t steps = 1; // how long a row is taken without asking again
};

// A worker's sparse tables, and where it gets their rows from: its own copy
// (geo), its cache, a pull that was started before, or the servers.
// Thread-safe.
class RowSource {
 public:
  // Both must outlive it.
  RowSource(Client& client, const Communicator& communicator)
      : client_(client), communicator_(communicator) {}

  // Makes a table, or finds the one of that name. Returns its id.
  std::uint32_t add_table(SparseConfig config, const CacheOptions& cache);
  bool has_table(const std::string& name) const;
  // Throws InvalidArgument if there is none.
  const std::string& name_of(std::uint32_t table);

  // The rows of keys, each once: [keys, pull_dim]. With `is_test`, none are
  // made.
  void fill(
      std::uint32_t table,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows,
      bool is_test);

  // Starts to pull what a later fill() of the same keys needs.
  void prefetch(std::uint32_t table, std::vector<std::uint64_t> keys);

  // Forgets all that it keeps.
  void forget();

  // A step has ended: what is kept is older now.
  void end_step();

  // Until every region has applied the steps so far (Sync): asks each for a
  // row.
  void wait_for_step();

  // Geo: see GeoTable.
  void push_local(
      std::uint32_t table,
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients);
  void exchange();
  // Returns whether rows are trained here; if not, servers have the rate.
  bool set_local_rate(std::uint32_t table, float rate);

  std::uint64_t num_prefetched() const;
  std::uint64_t num_cache_hits(std::uint32_t table);
  std::int64_t oldest_cache_hit(std::uint32_t table);

 private:
  struct Table {
    SparseConfig config;
    CacheOptions cache_options{};
    std::size_t pull_dim = 0;
    std::unique_ptr<GeoTable> geo{};
    std::unique_ptr<RowCache> cache{};
  };
  struct Prefetch {
    std::uint32_t table = 0;
    std::int64_t step = 0; // that the rows are of
    std::vector<std::uint64_t> keys{};
    std::vector<float> rows{};
    PendingPull pending{};
  };

  bool is_geo() const { return communicator_.options().mode == Mode::Geo; }
  Table& table(std::uint32_t id);
  void keep_nothing(Table& entry);
  bool take_prefetched(
      std::uint32_t id,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows);
  void fill_with_cache(
      std::uint32_t id,
      Table& entry,
      const std::vector<std::uint64_t>& keys,
      std::span<float> rows);

  Client& client_;
  const Communicator& communicator_;

  mutable std::mutex mutex_;
  // Guarded by mutex_; entries of tables_ stay where they are.
  std::map<std::uint32_t, Table> tables_;
  std::map<std::string, std::uint32_t> ids_;
  std::list<Prefetch> prefetches_;
  std::uint64_t num_prefetched_ = 0;
  std::int64_t steps_ = 0;
};

} // namespace argosy::ps
