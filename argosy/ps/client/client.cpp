#include "argosy/ps/client/client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/service/float_buffer.h"
#include "argosy/rpc/buffer_pool.h"

namespace argosy::ps {

namespace {

void check_rows(
    const char* op,
    const TableSpec& spec,
    std::size_t num_keys,
    std::size_t num_floats,
    std::size_t dim) {
  ARGOSY_CHECK(
      num_floats == num_keys * dim,
      "[ps.{}] {} floats for {} keys of table {} ('{}'), expected {} for each",
      op,
      num_floats,
      num_keys,
      spec.id(),
      spec.name(),
      dim);
}

void check_dense(const char* op, const TableSpec& spec, std::size_t size) {
  ARGOSY_CHECK(
      spec.is_dense && size == spec.dense_size,
      "[ps.{}] {} values of table {} ('{}'), expected {} of a dense table",
      op,
      size,
      spec.id(),
      spec.name(),
      spec.dense_size);
}

} // namespace

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      router_(options_.shape, options_.kv, options_.prefix),
      buffers_(std::make_shared<rpc::BufferPool>()) {
  check(options_.job);
  ARGOSY_CHECK(
      options_.worker >= 0 && options_.worker < options_.job.num_workers,
      "[ps.client] worker {} of {}",
      options_.worker,
      options_.job.num_workers);
  const int num_servers = options_.shape.num_servers;
  router_.connect(
      {.name = str("worker ", options_.worker),
       .id = num_servers + options_.worker,
       .credentials = options_.credentials,
       .tcp_host = options_.tcp_host},
      deadline());
  // Numbers below 2^32 are those of synchronous workers, whose commands go on
  // where an earlier run of the worker ended.
  client_ = (std::uint64_t{1} << 32) +
      2 * router_.directory().next_incarnation(deadline());
  const bool sync = options_.job.sync;
  for (int region = 0; region < options_.shape.num_regions(); ++region) {
    commands_.push_back(std::make_unique<Lane>(router_, region, client_, 1));
    pushes_.push_back(std::make_unique<Lane>(
        router_,
        region,
        sync ? static_cast<std::uint64_t>(options_.worker) + 1 : client_ + 1,
        sync ? 1 : options_.window));
  }
  command_all(
      {.kind = CommandKind::SetJob,
       .worker = static_cast<std::uint32_t>(options_.worker),
       .text = encode(options_.job)});
}

Client::~Client() {
  router_.disconnect();
}

void Client::command_all(const Command& command) {
  const Deadline limit = deadline();
  for (const auto& lane : commands_) {
    lane->send(command, {}, limit);
  }
  for (const auto& lane : commands_) {
    lane->flush(limit);
  }
}

void Client::create_table(const TableSpec& spec) {
  check(spec);
  const auto id = static_cast<std::uint32_t>(spec.id());
  {
    const std::lock_guard lock(mutex_);
    const auto found = tables_.find(id);
    if (found != tables_.end()) {
      check_same(found->second.spec, spec);
      return;
    }
  }
  command_all({.kind = CommandKind::CreateTable, .text = encode(spec)});
  Table table{.spec = spec};
  if (!spec.is_dense) {
    table.layout = row_layout(spec.sparse);
    table.planner = std::make_unique<KeyPlanner>(
        ShardMap{spec.sparse.shard_num, options_.shape.num_regions()});
  }
  const std::lock_guard lock(mutex_);
  tables_.emplace(id, std::move(table));
}

Client::Table& Client::table(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(id);
  ARGOSY_CHECK(
      found != tables_.end(),
      "[ps.client] table {} does not exist on this worker",
      id);
  return found->second;
}

const TableSpec& Client::spec(std::uint32_t id) const {
  return const_cast<Client*>(this)->table(id).spec;
}

const RowLayout& Client::layout(std::uint32_t id) const {
  const Table& found = const_cast<Client*>(this)->table(id);
  ARGOSY_CHECK(
      !found.spec.is_dense,
      "[ps.client] table {} ('{}') is dense, expected a sparse one",
      id,
      found.spec.name());
  return found.layout;
}

std::vector<TableSpec> Client::sparse_specs() const {
  const std::lock_guard lock(mutex_);
  std::vector<TableSpec> specs;
  for (const auto& [id, table] : tables_) {
    if (!table.spec.is_dense) {
      specs.push_back(table.spec);
    }
  }
  return specs;
}

std::shared_ptr<KeyPlan> Client::plan(
    Table& table, std::span<const std::uint64_t> keys) {
  auto result = std::make_shared<KeyPlan>();
  const std::lock_guard lock(mutex_); // the planner keeps scratch memory
  table.planner->plan(keys, *result);
  return result;
}

void Client::add_sparse(
    const SparsePull& pull,
    PendingPull& pending,
    std::vector<RowRequest>& requests,
    std::vector<std::vector<std::size_t>>& tables) {
  Table& found = table(pull.table);
  const auto dim = static_cast<std::size_t>(layout(pull.table).pull_dim);
  check_rows("pull", found.spec, pull.keys.size(), pull.rows.size(), dim);
  PendingPull::Table entry{.sparse = pull, .dim = dim};
  entry.plan = plan(found, pull.keys);
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const auto keys = entry.plan->keys_of(static_cast<int>(r));
    if (!keys.empty()) {
      requests[r].sections.push_back(
          {.kind = SectionKind::Sparse,
           .table = pull.table,
           .count = keys.size(),
           .keys = keys});
      tables[r].push_back(pending.tables_.size());
    }
  }
  pending.tables_.push_back(std::move(entry));
}

void Client::add_dense(
    const DensePull& pull,
    PendingPull& pending,
    std::vector<RowRequest>& requests,
    std::vector<std::vector<std::size_t>>& tables) {
  const Table& found = table(pull.table);
  check_dense("pull", found.spec, pull.values.size());
  for (std::size_t r = 0; r < requests.size(); ++r) {
    requests[r].sections.push_back(
        {.kind = SectionKind::Dense, .table = pull.table});
    tables[r].push_back(pending.tables_.size());
  }
  pending.tables_.push_back({.dense = pull, .is_dense = true});
}

PendingPull Client::start_pull(
    std::vector<SparsePull> sparse,
    std::vector<DensePull> dense,
    std::int64_t step,
    bool create) {
  const auto num_regions = pushes_.size();
  std::vector<RowRequest> requests(num_regions);
  std::vector<std::vector<std::size_t>> tables(num_regions);
  PendingPull pending;
  pending.client_ = this;
  pending.deadline_ = deadline();
  for (const SparsePull& pull : sparse) {
    add_sparse(pull, pending, requests, tables);
  }
  for (const DensePull& pull : dense) {
    add_dense(pull, pending, requests, tables);
  }
  for (std::size_t r = 0; r < num_regions; ++r) {
    if (requests[r].sections.empty()) {
      continue;
    }
    requests[r].region = static_cast<std::uint32_t>(r);
    requests[r].version = step;
    requests[r].create = create;
    PendingPull::Part part{
        .region = static_cast<int>(r),
        .message = encode(requests[r]),
        .tables = std::move(tables[r])};
    // The plan owns the keys.
    for (std::size_t i = 0, p = 0; i < requests[r].sections.size(); ++i) {
      if (requests[r].sections[i].kind == SectionKind::Sparse) {
        part.message.parts[p++].keeper = pending.tables_[part.tables[i]].plan;
      }
    }
    part.attempt =
        router_.send(part.region, kPullMethod, part.message, pending.deadline_);
    pending.parts_.push_back(std::move(part));
  }
  return pending;
}

void PendingPull::wait() {
  ARGOSY_CHECK(valid(), "[ps.pull] this pull has ended");
  Client& client = *std::exchange(client_, nullptr);
  for (Part& part : parts_) {
    auto reply =
        client.router_.finish(part.region, std::move(part.attempt), deadline_);
    client.scatter(
        *this,
        part,
        reply ? std::move(*reply)
              : client.router_.call(
                    part.region, kPullMethod, part.message, deadline_));
  }
}

void Client::scatter(
    const PendingPull& pending, const PendingPull::Part& part, Reply reply) {
  ARGOSY_CHECK(
      reply.parts.size() == part.tables.size(),
      "[ps.pull] a reply of {} parts, expected {}",
      reply.parts.size(),
      part.tables.size());
  for (std::size_t i = 0; i < part.tables.size(); ++i) {
    const PendingPull::Table& entry = pending.tables_[part.tables[i]];
    const rpc::Bytes& bytes = reply.parts[i];
    const auto* values = reinterpret_cast<const float*>(bytes.data);
    if (entry.is_dense) {
      const DenseRange range = dense_range(
          entry.dense.values.size(),
          static_cast<int>(pushes_.size()),
          part.region);
      ARGOSY_CHECK(
          bytes.size == range.size() * sizeof(float),
          "[ps.pull] {} bytes of a dense table, expected {} floats",
          bytes.size,
          range.size());
      std::memcpy(entry.dense.values.data() + range.begin, values, bytes.size);
      continue;
    }
    const auto region = static_cast<std::size_t>(part.region);
    const std::size_t begin = entry.plan->begin[region];
    const std::size_t end = entry.plan->begin[region + 1];
    ARGOSY_CHECK(
        bytes.size == (end - begin) * entry.dim * sizeof(float),
        "[ps.pull] {} bytes for {} rows of {}",
        bytes.size,
        end - begin,
        entry.dim);
    spread_rows(*entry.plan, begin, end, entry.dim, values, entry.sparse.rows);
  }
}

void Client::pull(
    std::vector<SparsePull> sparse,
    std::vector<DensePull> dense,
    std::int64_t step) {
  start_pull(std::move(sparse), std::move(dense), step).wait();
}

void Client::push(
    const std::vector<SparsePush>& sparse,
    const std::vector<DensePush>& dense,
    std::int64_t step) {
  const std::size_t num_regions = pushes_.size();
  std::vector<Command> commands(num_regions);
  std::vector<std::vector<std::shared_ptr<const void>>> keepers(num_regions);
  for (const SparsePush& push : sparse) {
    Table& found = table(push.table);
    const auto dim = static_cast<std::size_t>(layout(push.table).push_dim);
    check_rows("push", found.spec, push.keys.size(), push.records.size(), dim);
    const auto keys = plan(found, push.keys);
    FloatBuffer sums(*buffers_, keys->keys.size() * dim);
    sum_rows(*keys, dim, push.records, sums.span());
    for (std::size_t r = 0; r < num_regions; ++r) {
      const std::size_t begin = keys->begin[r];
      const std::size_t count = keys->begin[r + 1] - begin;
      if (count > 0) {
        commands[r].sections.push_back(
            {.kind = SectionKind::Sparse,
             .table = push.table,
             .count = count,
             .width = static_cast<std::uint32_t>(dim),
             .keys = keys->keys_of(static_cast<int>(r)),
             .values = sums.span().subspan(begin * dim, count * dim)});
        keepers[r].push_back(keys);
        keepers[r].push_back(sums.bytes().keeper);
      }
    }
  }
  for (const DensePush& push : dense) {
    const Table& found = table(push.table);
    check_dense("push", found.spec, push.gradient.size());
    const FloatBuffer copy(*buffers_, push.gradient);
    for (std::size_t r = 0; r < num_regions; ++r) {
      const DenseRange range = dense_range(
          push.gradient.size(),
          static_cast<int>(num_regions),
          static_cast<int>(r));
      const auto* values =
          reinterpret_cast<const float*>(copy.bytes().data) + range.begin;
      commands[r].sections.push_back(
          {.kind = SectionKind::Dense,
           .table = push.table,
           .count = range.size(),
           .values = std::span(values, range.size())});
      keepers[r].push_back(copy.bytes().keeper);
    }
  }
  const Deadline limit = deadline();
  for (std::size_t r = 0; r < num_regions; ++r) {
    const bool counts = options_.job.sync || !commands[r].sections.empty();
    if (!counts) {
      continue;
    }
    commands[r].kind = CommandKind::Push;
    commands[r].worker = static_cast<std::uint32_t>(options_.worker);
    commands[r].step = step;
    if (options_.job.sync) {
      // A step's number is its own, also when it is pushed again.
      pushes_[r]->set_next_number(static_cast<std::uint64_t>(step) + 1);
    }
    pushes_[r]->send(std::move(commands[r]), keepers[r], limit);
  }
  if (options_.job.sync) {
    flush();
  }
}

void Client::flush() {
  const Deadline limit = deadline();
  for (const auto& lane : pushes_) {
    lane->flush(limit);
  }
}

} // namespace argosy::ps
