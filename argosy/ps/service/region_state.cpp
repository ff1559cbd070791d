#include "argosy/ps/service/region_state.h"

#include <algorithm>
#include <cstring>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/ps/service/float_buffer.h"
#include "argosy/ps/service/rows_codec.h"
#include "argosy/ps/table/reservoir.h"
#include "argosy/ps/table/rule_kernels.h"
#include "argosy/ps/table/save_mode.h"

namespace argosy::ps {

namespace {

// A worker that runs further ahead than this does not wait for the others.
constexpr std::int64_t kMostStepsAhead = 64;

bool all_finite(std::span<const float> values) {
  return rule_kernels(simd::current_isa())
      .all_finite(values.data(), values.size());
}

void check_keys(const SparseTable& table, std::span<const std::uint64_t> keys) {
  const ShardMap& map = table.shard_map();
  const int first = map.first_shard(table.server());
  const int end = map.end_shard(table.server());
  if (end - first == map.shard_num) {
    return; // all of them
  }
  for (const std::uint64_t key : keys) {
    const int shard = map.shard_of(key);
    ARGOSY_CHECK(
        shard >= first && shard < end,
        "[ps.push] key {} of shard {} in region {}, which has shards {} to {}",
        key,
        shard,
        table.server(),
        first,
        end - 1);
  }
}

void check_sparse(const Section& section, RegionTable& table) {
  const std::string& name = table.spec.name();
  ARGOSY_CHECK(
      static_cast<int>(section.width) == table.push_dim(),
      "[ps.push] {} values per key for table {} ('{}'), expected {}",
      section.width,
      section.table,
      name,
      table.push_dim());
  check_keys(*table.sparse, section.keys);
  ARGOSY_CHECK(
      !table.spec.sparse.refuse_non_finite || all_finite(section.values),
      "[ps.push] a gradient of table {} ('{}') is no finite number",
      section.table,
      name);
}

void check_weights(const Section& section, RegionTable& table) {
  const SparseConfig& config = table.spec.sparse;
  ARGOSY_CHECK(
      config.accessor == Accessor::Embedding &&
          static_cast<int>(section.width) == config.embedx_dim,
      "[ps.set_rows] {} weights per key for table {} ('{}'), expected {} of a "
      "table without shows and clicks",
      section.width,
      section.table,
      config.name,
      config.embedx_dim);
  check_keys(*table.sparse, section.keys);
  ARGOSY_CHECK(
      all_finite(section.values),
      "[ps.set_rows] a weight of table {} ('{}') is no finite number",
      section.table,
      config.name);
}

void check_dense(const Section& section, RegionTable& table) {
  const std::string& name = table.spec.name();
  ARGOSY_CHECK(
      section.values.size() == table.dense->size(),
      "[ps.push] {} values for table {} ('{}'), expected {} in this region",
      section.values.size(),
      section.table,
      name,
      table.dense->size());
  ARGOSY_CHECK(
      !table.spec.dense.refuse_non_finite || all_finite(section.values),
      "[ps.push] a gradient of table {} ('{}') is no finite number",
      section.table,
      name);
}

} // namespace

void RegionState::check_push(const Command& command) {
  ARGOSY_CHECK(
      has_job_, "[ps.push] the workers have not described the job yet");
  ARGOSY_CHECK(
      static_cast<int>(command.worker) < job_.num_workers,
      "[ps.push] worker {} of a job of {}",
      command.worker,
      job_.num_workers);
  ARGOSY_CHECK(
      job_.sync == (command.step >= 0),
      "[ps.push] step {} in {} mode",
      command.step,
      job_.sync ? "synchronous" : "asynchronous");
  ARGOSY_CHECK(
      command.step < version_ + kMostStepsAhead,
      "[ps.push] worker {} pushes step {}, but {} steps have been applied",
      command.worker,
      command.step,
      version_);
  for (const Section& section : command.sections) {
    if (section.kind == SectionKind::Sparse) {
      check_sparse(section, tables_.sparse(section.table));
    } else {
      check_dense(section, tables_.dense(section.table));
    }
  }
}

void RegionState::check(const Command& command) {
  switch (command.kind) {
    case CommandKind::SetJob: {
      const JobSpec job = decode_job(command.text);
      ps::check(job);
      ARGOSY_CHECK(
          !has_job_ || job == job_,
          "[ps.job] worker {} describes the job otherwise than another worker",
          command.worker);
      return;
    }
    case CommandKind::CreateTable:
      // As a trial, since it does nothing if the table exists.
      tables_.create(decode_table(command.text), job_);
      return;
    case CommandKind::Push:
      return check_push(command);
    case CommandKind::SetDense:
      for (const Section& section : command.sections) {
        check_dense(section, tables_.dense(section.table));
      }
      return;
    case CommandKind::SetRows:
      for (const Section& section : command.sections) {
        check_weights(section, tables_.sparse(section.table));
      }
      return;
    case CommandKind::ImportRows:
      tables_.sparse(command.table);
      return;
    case CommandKind::SetDenseState:
      tables_.dense(command.table);
      return;
    case CommandKind::SaveBegin:
      save_mode(static_cast<int>(command.step));
      ARGOSY_CHECK(!tables_.has_cut(), "[ps.save] another save is under way");
      return;
    case CommandKind::GeoTake:
      ARGOSY_CHECK(
          tables_.sparse(command.table).changed != nullptr &&
              static_cast<int>(command.worker) < job_.num_workers,
          "[ps.geo] worker {} of a job that is not in geo mode",
          command.worker);
      return;
    case CommandKind::SetLearningRate:
      tables_.find(command.table);
      ARGOSY_CHECK(command.text.size() == sizeof(float), "[ps.rate] no number");
      return;
    case CommandKind::Arrive:
    case CommandKind::Leave:
      ARGOSY_CHECK(
          has_job_ && static_cast<int>(command.worker) < job_.num_workers,
          "[ps.barrier] worker {} of a job of {}",
          command.worker,
          job_.num_workers);
      return;
    case CommandKind::Shrink:
    case CommandKind::SaveEnd:
    case CommandKind::Clear:
    case CommandKind::Skip:
      return;
  }
}

Reply RegionState::apply(const Command& command) {
  if (command.number > 0) {
    sequences_.record(command.client, command.number);
  }
  switch (command.kind) {
    case CommandKind::SetJob:
      set_job(decode_job(command.text));
      break;
    case CommandKind::CreateTable:
      tables_.create(decode_table(command.text), job_);
      break;
    case CommandKind::Push:
      push(command);
      break;
    case CommandKind::SetDense:
      for (const Section& section : command.sections) {
        tables_.dense(section.table).dense->set_values(section.values);
      }
      break;
    case CommandKind::SetRows:
      for (const Section& section : command.sections) {
        tables_.sparse(section.table)
            .sparse->partition(0)
            .set_weights(section.keys, section.values);
      }
      break;
    case CommandKind::ImportRows: {
      SparseTable& table = *tables_.sparse(command.table).sparse;
      table.partition(0).import_rows(decode_rows(command.text));
      break;
    }
    case CommandKind::SetDenseState:
      decode_dense(command.text, *tables_.dense(command.table).dense);
      break;
    case CommandKind::Shrink:
      for (auto& [id, table] : tables_.all()) {
        if (table.sparse) {
          table.sparse->shrink();
        }
      }
      break;
    case CommandKind::SaveBegin:
      tables_.begin_cut(save_mode(static_cast<int>(command.step)));
      break;
    case CommandKind::SaveEnd:
      tables_.end_cut(command.step != 0);
      break;
    case CommandKind::Clear:
      for (auto& [id, table] : tables_.all()) {
        clear_table(table);
      }
      break;
    case CommandKind::SetLearningRate: {
      float rate = 0;
      std::memcpy(&rate, command.text.data(), sizeof(rate));
      set_learning_rate(command.table, rate);
      break;
    }
    case CommandKind::Arrive: {
      auto& generations = barriers_[command.text];
      generations.resize(static_cast<std::size_t>(job_.num_workers), 0);
      std::int64_t& own = generations[command.worker];
      own = std::max(own, command.step);
      break;
    }
    case CommandKind::GeoTake: {
      RegionTable& table = tables_.sparse(command.table);
      table.taken[command.worker] =
          table.changed->take(static_cast<int>(command.worker));
      return geo_rows(table, command.worker);
    }
    case CommandKind::Leave:
      left_.emplace(command.worker, command.step);
      apply_steps();
      break;
    case CommandKind::Skip:
      break;
  }
  return {.version = version_};
}

void RegionState::replay(const Command& command) {
  apply(command);
  if (command.kind == CommandKind::SaveBegin) {
    // The leader writes the rows; here the cut counts alone.
    std::uint32_t table = 0;
    RowBatch rows;
    while (tables_.next_rows(65536, table, rows)) {
    }
  }
}

Reply RegionState::repeat(const Command& command) {
  if (command.kind == CommandKind::GeoTake) {
    return geo_rows(tables_.sparse(command.table), command.worker);
  }
  return {.version = version_};
}

void RegionState::set_job(const JobSpec& job) {
  job_ = job;
  has_job_ = true;
}

void RegionState::clear_table(RegionTable& table) {
  table.last_rows.clear();
  table.last_values.clear();
  table.dense ? table.dense->clear() : table.sparse->clear();
}

void RegionState::set_learning_rate(std::uint32_t id, float rate) {
  RegionTable& table = tables_.find(id);
  table.learning_rate = rate;
  table.dense ? table.dense->set_learning_rate(rate)
              : table.sparse->set_learning_rate(rate);
}

void RegionState::push(const Command& command) {
  if (!job_.sync) {
    apply_now(command);
    return;
  }
  // A worker that came back pushes its step again to regions that applied it.
  if (command.step >= version_) {
    pending_[command.step][command.worker] = command;
    apply_steps();
  }
}

void RegionState::apply_now(const Command& command) {
  for (const Section& section : command.sections) {
    RegionTable& table = tables_.find(section.table);
    if (table.dense) {
      table.dense->push(section.values);
      continue;
    }
    table.sparse->partition(0).push(section.keys, section.values);
    if (table.changed) {
      table.changed->record(static_cast<int>(command.worker), section.keys);
    }
  }
}

std::size_t RegionState::num_active(std::int64_t step) const {
  auto count = static_cast<std::size_t>(job_.num_workers);
  for (const auto& [worker, first] : left_) {
    count -= first <= step;
  }
  return count;
}

bool RegionState::is_complete(std::int64_t step) const {
  const auto found = pending_.find(step);
  return found != pending_.end() && found->second.size() >= num_active(step);
}

void RegionState::apply_steps() {
  while (is_complete(version_)) {
    apply_step(pending_[version_]);
    pending_.erase(version_);
    ++version_;
  }
}

void RegionState::apply_step(const Pushes& pushes) {
  for (auto& [id, table] : tables_.all()) {
    if (table.dense) {
      merge_dense(id, table, pushes);
    } else {
      merge_sparse(id, table, pushes);
    }
  }
}

void RegionState::merge_sparse(
    std::uint32_t id, RegionTable& table, const Pushes& pushes) {
  const RowLayout& layout = table.sparse->layout();
  SparseReservoir reservoir(static_cast<int>(pushes.size()), layout.push_dim);
  int place = 0;
  for (const auto& [worker, command] : pushes) {
    for (const Section& section : command.sections) {
      if (section.table == id) {
        reservoir.push(place, section.keys, section.values);
      }
    }
    ++place;
  }
  const auto merged = reservoir.pour(
      layout.push_embed >= 0 ? layout.push_embed : layout.push_embedx,
      layout.has_ctr(),
      static_cast<int>(pushes.size()));
  Partition& partition = table.sparse->partition(0);
  if (job_.keeps_last_step) {
    const auto width = static_cast<std::size_t>(layout.pull_dim);
    std::vector<float> values(merged.keys.size() * width);
    partition.pull(merged.keys, values, false);
    table.last_rows.keep(merged.keys, std::move(values), width);
  }
  partition.push(merged.keys, merged.records);
}

void RegionState::merge_dense(
    std::uint32_t id, RegionTable& table, const Pushes& pushes) {
  DenseTable& dense = *table.dense;
  if (job_.keeps_last_step) {
    table.last_values.assign(dense.values().begin(), dense.values().end());
  }
  std::vector<std::span<const float>> gradients;
  for (const auto& [worker, command] : pushes) {
    for (const Section& section : command.sections) {
      if (section.table == id) {
        gradients.push_back(section.values);
      }
    }
  }
  if (gradients.empty()) {
    return;
  }
  DenseReservoir reservoir(static_cast<int>(gradients.size()), dense.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    reservoir.push(static_cast<int>(i), gradients[i]);
  }
  dense.push(reservoir.pour());
}

Reply RegionState::geo_rows(RegionTable& table, std::uint32_t worker) {
  const std::vector<std::uint64_t> keys = table.taken[worker];
  FloatBuffer values(
      *buffers_, keys.size() * static_cast<std::size_t>(table.pull_dim()));
  table.sparse->partition(0).pull(keys, values.span(), false);
  return {
      .version = version_, .parts = {rpc::Bytes::owned(keys), values.bytes()}};
}

Reply RegionState::pull(const RowRequest& request) {
  ARGOSY_CHECK(
      request.version < 0 || request.version >= version_ - 1,
      "[ps.pull] rows after {} steps, but {} steps have been applied",
      request.version,
      version_);
  const bool before = request.version >= 0 && request.version < version_;
  ARGOSY_CHECK(
      !before || job_.keeps_last_step,
      "[ps.pull] rows after {} steps, which are not kept (keeps_last_step)",
      request.version);
  Reply reply{.version = version_};
  for (const Section& section : request.sections) {
    if (section.kind == SectionKind::Dense) {
      const RegionTable& table = tables_.dense(section.table);
      const bool old = before && !table.last_values.empty();
      reply.parts.push_back(
          FloatBuffer(
              *buffers_, old ? table.last_values : table.dense->values())
              .bytes());
      continue;
    }
    RegionTable& table = tables_.sparse(section.table);
    FloatBuffer values(
        *buffers_,
        section.keys.size() * static_cast<std::size_t>(table.pull_dim()));
    table.sparse->partition(0).pull(
        section.keys, values.span(), request.create);
    if (before) {
      table.last_rows.restore(section.keys, values.span());
    }
    reply.parts.push_back(values.bytes());
  }
  return reply;
}

std::string RegionState::missing_workers() const {
  const auto found = pending_.find(version_);
  std::vector<std::string> missing;
  for (std::uint32_t w = 0; w < static_cast<std::uint32_t>(job_.num_workers);
       ++w) {
    const auto left = left_.find(w);
    if ((left == left_.end() || left->second > version_) &&
        (found == pending_.end() || !found->second.contains(w))) {
      missing.push_back(str(w));
    }
  }
  return join(missing, ", ");
}

bool RegionState::has_passed(
    const std::string& barrier, std::int64_t generation) const {
  const auto found = barriers_.find(barrier);
  if (found == barriers_.end()) {
    return false;
  }
  for (std::uint32_t w = 0; w < found->second.size(); ++w) {
    if (found->second[w] < generation && !left_.contains(w)) {
      return false;
    }
  }
  return true;
}

} // namespace argosy::ps
