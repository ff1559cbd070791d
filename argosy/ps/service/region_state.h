#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/ps/service/messages.h"
#include "argosy/ps/service/region_tables.h"
#include "argosy/ps/service/sequence.h"
#include "argosy/ps/service/table_spec.h"
#include "argosy/rpc/buffer_pool.h"

namespace argosy::ps {

// All that a region is: its tables, the gradients that wait for other workers,
// the last command of each client. A deterministic state machine: replicas that
// execute the same commands in the same order are equal. No threads, no clocks,
// no files. One thread at a time.
class RegionState {
 public:
  RegionState(int region, int num_regions) : tables_(region, num_regions) {}

  const JobSpec& job() const { return job_; }
  RegionTables& tables() { return tables_; }
  const Sequences& sequences() const { return sequences_; }

  // The number of synchronous steps that have been applied.
  std::int64_t version() const { return version_; }

  // Throws InvalidArgument, naming what is wrong, if the command cannot be
  // executed. apply() of a command that passes does not throw.
  void check(const Command& command);

  // Executes a command whose number is new for its client.
  Reply apply(const Command& command);

  // Executes a command that a leader, perhaps of an earlier run, has executed.
  void replay(const Command& command);

  // The reply to a command that was executed before.
  Reply repeat(const Command& command);

  // Whether pull() can answer, or has to wait for further steps.
  bool has_version(std::int64_t version) const {
    return version < 0 || version <= version_;
  }
  // Throws InvalidArgument for tables that do not exist, and for versions that
  // are gone.
  Reply pull(const RowRequest& request);

  // The workers whose gradients of the current step are missing: "1, 3".
  std::string missing_workers() const;

  bool has_passed(const std::string& barrier, std::int64_t generation) const;

  // The state as bytes: a header, then rows as RegionTables::next_rows() gives
  // them, then finish_load().
  std::string save_header();
  void load_header(std::string_view bytes);
  void finish_load() { tables_.finish_load(job_); }

 private:
  using Pushes = std::map<std::uint32_t, Command>; // by worker

  void check_push(const Command& command);
  void set_job(const JobSpec& job);
  void push(const Command& command);
  void apply_now(const Command& command);
  void apply_steps();
  bool is_complete(std::int64_t step) const;
  void apply_step(const Pushes& pushes);
  void merge_sparse(std::uint32_t id, RegionTable& table, const Pushes& pushes);
  void merge_dense(std::uint32_t id, RegionTable& table, const Pushes& pushes);
  Reply geo_rows(RegionTable& table, std::uint32_t worker);
  void set_learning_rate(std::uint32_t id, float rate);
  void clear_table(RegionTable& table);
  std::size_t num_active(std::int64_t step) const;

  RegionTables tables_;
  const std::shared_ptr<rpc::BufferPool> buffers_ =
      std::make_shared<rpc::BufferPool>(); // of replies
  JobSpec job_;
  bool has_job_ = false;
  Sequences sequences_;
  std::int64_t version_ = 0;
  std::map<std::int64_t, Pushes> pending_;     // by step
  std::map<std::uint32_t, std::int64_t> left_; // first step without a worker
  std::map<std::string, std::vector<std::int64_t>> barriers_; // by worker
};

} // namespace argosy::ps
