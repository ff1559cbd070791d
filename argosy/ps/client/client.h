#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "argosy/common/deadline.h"
#include "argosy/ps/client/key_plan.h"
#include "argosy/ps/client/lane.h"
#include "argosy/ps/client/router.h"
#include "argosy/ps/service/table_spec.h"
#include "argosy/ps/table/row_layout.h"
#include "argosy/ps/table/save_mode.h"
#include "argosy/store/credentials.h"

namespace argosy::rpc {
class BufferPool;
}

namespace argosy::ps {

struct ClientOptions {
  int worker = 0;
  JobSpec job{};
  Shape shape{};
  std::shared_ptr<store::Kv> kv{}; // the job's store
  std::string prefix = "ps/";

  store::Credentials credentials{};
  std::string tcp_host{}; // see rpc::EndpointOptions

  // The limit of each call, also while a server is lost and another one comes.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // Pushes to a region that may be unacknowledged (asynchronous modes).
  std::size_t window = 8;
};

// Rows to read: `rows` gets pull_dim floats for each key. Keys may repeat.
struct SparsePull {
  std::uint32_t table = 0;
  std::span<const std::uint64_t> keys{};
  std::span<float> rows{};
};

// All elements of a dense table.
struct DensePull {
  std::uint32_t table = 0;
  std::span<float> values{};
};

// Records to apply: push_dim floats for each key. Those of keys that repeat are
// added up, in order.
struct SparsePush {
  std::uint32_t table = 0;
  std::span<const std::uint64_t> keys{};
  std::span<const float> records{};
};

struct DensePush {
  std::uint32_t table = 0;
  std::span<const float> gradient{};
};

struct TableStat {
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;
};

class Client;

// A pull that is under way.
class PendingPull {
 public:
  PendingPull() = default;
  PendingPull(PendingPull&&) noexcept = default;
  PendingPull& operator=(PendingPull&&) noexcept = default;

  bool valid() const { return client_ != nullptr; }

  // Blocks until the rows are where the pull said, which must still exist.
  // Throws as Client's methods do.
  void wait();

 private:
  friend class Client;

  struct Table {
    SparsePull sparse{};
    DensePull dense{};
    bool is_dense = false;
    std::shared_ptr<KeyPlan> plan{};
    std::size_t dim = 0;
  };
  struct Part {
    int region = 0;
    rpc::Message message{};
    Router::Attempt attempt{};
    std::vector<std::size_t> tables{}; // of each section
  };

  Client* client_ = nullptr;
  Deadline deadline_ = Deadline::after(std::chrono::seconds(0));
  std::vector<Table> tables_;
  std::vector<Part> parts_;
};

// A worker's side of the parameter server: brings keys to the servers that hold
// them, one message to each, and goes on when a server is lost. No torch.
// Thread-safe, but for the state of PendingPull.
//
// All throw TimeoutError at the time limit, InvalidArgument for what servers
// refuse, StoreError when the job's store is lost.
class Client {
 public:
  // Blocks until all servers are there, and tells them the job.
  explicit Client(ClientOptions options);
  ~Client();

  const ClientOptions& options() const { return options_; }

  // Makes a table, unless another worker has. Ids must differ.
  void create_table(const TableSpec& spec);
  const TableSpec& spec(std::uint32_t table) const;
  const RowLayout& layout(std::uint32_t table) const; // of a sparse one
  std::vector<TableSpec> sparse_specs() const;

  // Starts a pull. `step`: the number of synchronous steps that must have been
  // applied, -1 in other modes. Spans must stay until wait().
  PendingPull start_pull(
      std::vector<SparsePull> sparse,
      std::vector<DensePull> dense,
      std::int64_t step = -1,
      bool create = true);
  void pull(
      std::vector<SparsePull> sparse,
      std::vector<DensePull> dense = {},
      std::int64_t step = -1);

  // Sends one message to each region. In a synchronous job it is this worker's
  // gradient of `step`, counts also if it is empty, and is acknowledged when
  // push() returns; in others it may still be under way: see flush().
  void push(
      const std::vector<SparsePush>& sparse,
      const std::vector<DensePush>& dense = {},
      std::int64_t step = -1);
  void flush();

  // The first step that this worker has not pushed to all servers: where a
  // worker that was killed goes on. Synchronous jobs only.
  std::int64_t resume_step();

  // Replaces all values of a dense table.
  void set_dense(std::uint32_t table, std::span<const float> values);
  // Gives rows of a table without shows and clicks these weights.
  void set_rows(
      std::uint32_t table,
      std::span<const std::uint64_t> keys,
      std::span<const float> weights);
  void set_learning_rate(std::uint32_t table, float rate);

  // Rows that other workers have changed since the last call (geo).
  struct Rows {
    std::vector<std::uint64_t> keys;
    std::vector<float> values; // pull_dim for each
  };
  Rows take_changed(std::uint32_t table);

  // Blocks until all workers have called it with this name as often.
  void barrier(const std::string& name = "worker");

  // Saves or loads a table, or all (-1). A save is a consistent cut: in a
  // synchronous job after exactly `step` steps, else one in which no push is
  // without those that it could know of. One worker calls it.
  void save(
      const std::string& folder,
      SaveMode mode,
      int table = -1,
      std::int64_t step = -1);
  void load(const std::string& folder, int table = -1);

  void shrink();
  void clear();
  TableStat stat(std::uint32_t table);

  // This worker pushes no more: others do not wait for its steps from `step`.
  void leave(std::int64_t step);
  // Ends the servers. One worker calls it, when all are done.
  void stop_servers();

  std::uint64_t num_failovers() const { return router_.num_failovers(); }

 private:
  friend class PendingPull;

  struct Table {
    TableSpec spec;
    RowLayout layout;
    std::unique_ptr<KeyPlanner> planner;
  };

  Deadline deadline() const { return Deadline::after(options_.timeout); }
  Table& table(std::uint32_t id);
  std::shared_ptr<KeyPlan> plan(
      Table& table, std::span<const std::uint64_t> keys);
  void add_sparse(
      const SparsePull& pull,
      PendingPull& pending,
      std::vector<RowRequest>& requests,
      std::vector<std::vector<std::size_t>>& tables);
  void add_dense(
      const DensePull& pull,
      PendingPull& pending,
      std::vector<RowRequest>& requests,
      std::vector<std::vector<std::size_t>>& tables);
  void scatter(
      const PendingPull& pending, const PendingPull::Part& part, Reply reply);
  // To all regions, as one command each; blocks until all have it.
  void command_all(const Command& command);
  std::vector<Reply> ask_all(const std::vector<rpc::Message>& messages);

  const ClientOptions options_;
  Router router_;
  const std::shared_ptr<rpc::BufferPool> buffers_; // of pushes
  std::vector<std::unique_ptr<Lane>> pushes_;      // by region
  std::vector<std::unique_ptr<Lane>> commands_;    // by region
  std::uint64_t client_ = 0;                       // of commands_

  mutable std::mutex mutex_;
  std::map<std::uint32_t, Table> tables_;        // guarded by mutex_
  std::map<std::string, std::int64_t> barriers_; // guarded by mutex_
  std::uint64_t next_save_ = 1;                  // guarded by mutex_
};

} // namespace argosy::ps
