#include "argosy/online/write_export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/service/table_spec.h"
#include "argosy/ps/table/row_rules.h"
#include "argosy/ps/table/save.h"
#include "argosy/serving/export_file.h"
#include "argosy/serving/export_writer.h"

namespace argosy::online {

namespace {

constexpr const char* kSpecEnding = ".table";
constexpr std::size_t kRowsAtOnce = 4096;

// In the order of ids, which is that in which workers made the tables.
std::vector<ps::TableSpec> saved_specs(const std::filesystem::path& folder) {
  std::map<int, ps::TableSpec> specs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == kSpecEnding) {
      ps::TableSpec spec =
          ps::decode_table(read_file(entry.path()).value_or(""));
      spec.sparse.on_ssd = false;
      specs.emplace(spec.id(), std::move(spec));
    }
  }
  std::vector<ps::TableSpec> sorted;
  for (auto& [id, spec] : specs) {
    sorted.push_back(std::move(spec));
  }
  return sorted;
}

// Adds rows by key: what servers save is in the order of their memory, which is
// another one after a restart.
void add_rows(
    const ps::RowRules& rules,
    const ps::RowBatch& rows,
    serving::ExportWriter& writer) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return rows.keys[i]; });
  std::vector<float> pulled(static_cast<std::size_t>(rules.layout().pull_dim));
  for (const std::size_t i : order) {
    const auto kind = rules.kind_of(rows.row(i).size());
    if (kind && *kind != ps::RowKind::Pending) {
      rules.select(*kind, rows.row(i).data(), pulled.data());
      writer.add_row(rows.keys[i], pulled);
    }
  }
}

void add_table(
    const ps::TableSpec& spec,
    const ExportJob& job,
    serving::ExportWriter& writer,
    Deadline deadline) {
  const ps::RowRules rules(spec.sparse);
  const ps::SparseTable like(spec.sparse); // for its layout: it has no rows
  ps::ShardFilesReader reader(
      like,
      job.saved,
      deadline,
      job.planned.is_base ? ps::SaveMode::Base : ps::SaveMode::Delta);
  writer.begin_table(spec.name(), rules.layout().pull_dim);
  ps::RowBatch shard; // rows of one shard, which come one after another
  ps::RowBatch some;
  while (reader.next(kRowsAtOnce, some, deadline)) {
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::uint64_t key = some.keys[i];
      if (shard.size() > 0 &&
          like.shard_map().shard_of(key) !=
              like.shard_map().shard_of(shard.keys[0])) {
        add_rows(rules, shard, writer);
        shard.clear();
      }
      std::ranges::copy(
          some.row(i), shard.add(key, some.row(i).size()).begin());
    }
  }
  add_rows(rules, shard, writer);
}

std::string parent_hash(const ExportJob& job) {
  if (job.planned.is_base) {
    return "";
  }
  const std::uint64_t number = job.planned.number - 1;
  const std::filesystem::path folder(job.exports);
  for (const auto kind :
       {serving::ExportKind::Base, serving::ExportKind::Delta}) {
    const auto path = folder / serving::file_name({number, kind});
    if (std::filesystem::exists(path)) {
      return serving::ExportFile(path, false).hash();
    }
  }
  throw CheckpointError(str_format(
      "[online.export] {}: export {}, which {} follows, is not there",
      job.exports,
      number,
      job.planned.number));
}

} // namespace

void write_export(const ExportJob& job, Deadline deadline) {
  const serving::ExportName name{
      job.planned.number,
      job.planned.is_base ? serving::ExportKind::Base
                          : serving::ExportKind::Delta};
  const std::filesystem::path folder(job.exports);
  if (std::filesystem::exists(folder / serving::file_name(name))) {
    return;
  }
  serving::ExportWriter writer(
      job.exports,
      {.name = name, .parent = parent_hash(job), .label = job.label},
      deadline);
  for (const ps::TableSpec& spec : saved_specs(job.saved)) {
    add_table(spec, job, writer, deadline);
  }
  const auto dense =
      read_file(std::filesystem::path(job.saved) / kDenseWeights);
  if (dense) {
    writer.add_blob(kDenseWeights, std::as_bytes(std::span(*dense)));
  }
  writer.commit();
}

} // namespace argosy::online
