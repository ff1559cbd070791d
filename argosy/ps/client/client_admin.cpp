// What a client does beside pulls and pushes.

#include <algorithm>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/service/queries.h"

namespace argosy::ps {

namespace {

ByteWriter query(int region, QueryKind kind) {
  ByteWriter out;
  out.put(static_cast<std::uint32_t>(region)).put(kind);
  return out;
}

std::uint32_t num_of(int region) {
  return static_cast<std::uint32_t>(region);
}

} // namespace

std::vector<Reply> Client::ask_all(const std::vector<rpc::Message>& messages) {
  const Deadline limit = deadline();
  std::vector<Router::Attempt> attempts;
  for (std::size_t r = 0; r < messages.size(); ++r) {
    attempts.push_back(
        router_.send(static_cast<int>(r), kQueryMethod, messages[r], limit));
  }
  std::vector<Reply> replies;
  for (std::size_t r = 0; r < messages.size(); ++r) {
    const int region = static_cast<int>(r);
    auto reply = router_.finish(region, std::move(attempts[r]), limit);
    replies.push_back(
        reply ? std::move(*reply)
              : router_.call(region, kQueryMethod, messages[r], limit));
  }
  return replies;
}

std::int64_t Client::resume_step() {
  ARGOSY_CHECK(
      options_.job.sync, "[ps.client] resume_step() of a job without steps");
  std::vector<rpc::Message> messages;
  for (int r = 0; r < options_.shape.num_regions(); ++r) {
    messages.push_back(
        {query(r, QueryKind::LastNumber)
             .put(static_cast<std::uint64_t>(options_.worker) + 1)
             .take(),
         {}});
  }
  std::uint64_t first = ~std::uint64_t{0};
  for (const Reply& reply : ask_all(messages)) {
    first = std::min(
        first, ByteReader(reply.text, "last_number").get<std::uint64_t>());
  }
  return static_cast<std::int64_t>(first);
}

void Client::set_dense(std::uint32_t id, std::span<const float> values) {
  const Table& found = table(id);
  ARGOSY_CHECK(
      found.spec.is_dense && values.size() == found.spec.dense_size,
      "[ps.set_dense] {} values of table {} ('{}'), expected {} of a dense "
      "table",
      values.size(),
      id,
      found.spec.name(),
      found.spec.dense_size);
  const Deadline limit = deadline();
  for (int r = 0; r < options_.shape.num_regions(); ++r) {
    const DenseRange range =
        dense_range(values.size(), options_.shape.num_regions(), r);
    Command command{.kind = CommandKind::SetDense};
    command.sections.push_back(
        {.kind = SectionKind::Dense,
         .table = id,
         .count = range.size(),
         .values = values.subspan(range.begin, range.size())});
    commands_[num_of(r)]->send(std::move(command), {}, limit);
  }
  for (const auto& lane : commands_) {
    lane->flush(limit);
  }
}

void Client::set_rows(
    std::uint32_t id,
    std::span<const std::uint64_t> keys,
    std::span<const float> weights) {
  const SparseConfig& config = spec(id).sparse;
  const auto dim = static_cast<std::size_t>(layout(id).embedx_dim);
  check_floats(config, "set_rows", keys.size(), weights.size(), dim);
  struct Part {
    std::vector<std::uint64_t> keys;
    std::vector<float> weights;
  };
  const ShardMap map{config.shard_num, options_.shape.num_regions()};
  std::vector<Part> parts(static_cast<std::size_t>(map.num_servers));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Part& part = parts[static_cast<std::size_t>(map.server_of(keys[i]))];
    part.keys.push_back(keys[i]);
    const auto row = weights.subspan(i * dim, dim);
    part.weights.insert(part.weights.end(), row.begin(), row.end());
  }
  const Deadline limit = deadline();
  for (std::size_t r = 0; r < parts.size(); ++r) {
    Command command{.kind = CommandKind::SetRows};
    command.sections.push_back(
        {.table = id,
         .count = parts[r].keys.size(),
         .width = static_cast<std::uint32_t>(dim),
         .keys = parts[r].keys,
         .values = parts[r].weights});
    commands_[r]->send(std::move(command), {}, limit);
  }
  for (const auto& lane : commands_) {
    lane->flush(limit);
  }
}

void Client::set_learning_rate(std::uint32_t id, float rate) {
  table(id);
  command_all(
      {.kind = CommandKind::SetLearningRate,
       .table = id,
       .text =
           std::string(reinterpret_cast<const char*>(&rate), sizeof(rate))});
}

Client::Rows Client::take_changed(std::uint32_t id) {
  const auto dim = static_cast<std::size_t>(layout(id).pull_dim);
  const Deadline limit = deadline();
  for (const auto& lane : commands_) {
    lane->send(
        {.kind = CommandKind::GeoTake,
         .worker = static_cast<std::uint32_t>(options_.worker),
         .table = id},
        {},
        limit);
  }
  Rows rows;
  for (const auto& lane : commands_) {
    const Reply reply = lane->flush(limit);
    const std::size_t count = reply.parts.size() == 2
        ? reply.parts[0].size / sizeof(std::uint64_t)
        : 0;
    ARGOSY_CHECK(
        reply.parts.size() == 2 &&
            reply.parts[1].size == count * dim * sizeof(float),
        "[ps.geo] a reply of {} parts that do not fit",
        reply.parts.size());
    const auto* keys =
        reinterpret_cast<const std::uint64_t*>(reply.parts[0].data);
    const auto* values = reinterpret_cast<const float*>(reply.parts[1].data);
    rows.keys.insert(rows.keys.end(), keys, keys + count);
    rows.values.insert(rows.values.end(), values, values + count * dim);
  }
  return rows;
}

void Client::barrier(const std::string& name) {
  std::int64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    generation = ++barriers_[name];
  }
  // One region is enough.
  const Deadline limit = deadline();
  commands_[0]->send(
      {.kind = CommandKind::Arrive,
       .worker = static_cast<std::uint32_t>(options_.worker),
       .step = generation,
       .text = name},
      {},
      limit);
  commands_[0]->flush(limit);
  router_.call(
      0,
      kQueryMethod,
      {query(0, QueryKind::Barrier).text(name).put(generation).take(), {}},
      limit);
}

void Client::save(
    const std::string& folder, SaveMode mode, int id, std::int64_t step) {
  flush();
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_save_++;
  }
  std::vector<rpc::Message> holds;
  std::vector<rpc::Message> saves;
  for (int r = 0; r < options_.shape.num_regions(); ++r) {
    holds.push_back({query(r, QueryKind::Hold).take(), {}});
    saves.push_back(
        {query(r, QueryKind::Save)
             .put(step)
             .text(folder)
             .put(static_cast<std::int32_t>(mode))
             .put(static_cast<std::int32_t>(id))
             .put(client_ + (std::uint64_t{1} << 63))
             .put(number)
             .take(),
         {}});
  }
  if (!options_.job.sync) {
    ask_all(holds); // no region applies a push before all have their cut
  }
  ask_all(saves);
}

void Client::load(const std::string& folder, int id) {
  std::vector<rpc::Message> messages;
  for (int r = 0; r < options_.shape.num_regions(); ++r) {
    messages.push_back(
        {query(r, QueryKind::Load)
             .text(folder)
             .put(static_cast<std::int32_t>(id))
             .take(),
         {}});
  }
  ask_all(messages);
}

void Client::shrink() {
  command_all({.kind = CommandKind::Shrink});
}

void Client::clear() {
  command_all({.kind = CommandKind::Clear});
}

TableStat Client::stat(std::uint32_t id) {
  layout(id);
  std::vector<rpc::Message> messages;
  for (int r = 0; r < options_.shape.num_regions(); ++r) {
    messages.push_back({query(r, QueryKind::Stat).put(id).take(), {}});
  }
  TableStat sum;
  for (const Reply& reply : ask_all(messages)) {
    ByteReader in(reply.text, "stat");
    sum.rows += in.get<std::uint64_t>();
    sum.bytes += in.get<std::uint64_t>();
  }
  return sum;
}

void Client::leave(std::int64_t step) {
  command_all(
      {.kind = CommandKind::Leave,
       .worker = static_cast<std::uint32_t>(options_.worker),
       .step = step});
}

void Client::stop_servers() {
  router_.stop_servers(deadline());
}

} // namespace argosy::ps
