#include "argosy/ps/service/region_tables.h"

#include "argosy/common/error.h"
#include "argosy/ps/service/bytes.h"

namespace argosy::ps {

namespace {

void put_floats(ByteWriter& out, std::span<const float> values) {
  out.text({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

std::vector<float> get_floats(ByteReader& in) {
  const std::string bytes = in.text();
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  }
  return values;
}

void save_dense_state(ByteWriter& out, const DenseTable& table) {
  put_floats(out, table.values());
  out.put(static_cast<std::uint32_t>(table.num_columns()));
  for (int i = 0; i < table.num_columns(); ++i) {
    put_floats(out, table.column(i));
  }
  out.put(static_cast<std::int64_t>(table.steps()));
}

void load_dense_state(ByteReader& in, DenseTable& table) {
  table.set_values(get_floats(in));
  const std::size_t num_columns = in.count(sizeof(std::uint32_t));
  std::vector<std::vector<float>> columns;
  for (std::size_t i = 0; i < num_columns; ++i) {
    columns.push_back(get_floats(in));
  }
  table.set_state(std::move(columns), in.get<std::int64_t>());
}

} // namespace

std::string encode_dense(const DenseTable& table) {
  ByteWriter out;
  save_dense_state(out, table);
  return out.take();
}

void decode_dense(std::string_view bytes, DenseTable& table) {
  ByteReader in(bytes, "dense");
  load_dense_state(in, table);
  in.end();
}

void RegionTables::create(const TableSpec& spec, const JobSpec& job) {
  check(spec);
  const auto id = static_cast<std::uint32_t>(spec.id());
  if (const auto found = tables_.find(id); found != tables_.end()) {
    check_same(found->second.spec, spec);
    return;
  }
  RegionTable table{.spec = spec};
  if (spec.is_dense) {
    const DenseRange range =
        dense_range(spec.dense_size, num_regions_, region_);
    table.dense = std::make_unique<DenseTable>(spec.dense, range.size());
  } else {
    table.sparse =
        std::make_unique<SparseTable>(spec.sparse, num_regions_, region_);
    if (job.geo) {
      table.changed = std::make_unique<GeoRecorder>(job.num_workers);
    }
  }
  tables_.emplace(id, std::move(table));
}

RegionTable& RegionTables::find(std::uint32_t id) {
  const auto found = tables_.find(id);
  ARGOSY_CHECK(
      found != tables_.end(),
      "[ps.server] table {} does not exist; there are {} tables",
      id,
      tables_.size());
  return found->second;
}

RegionTable& RegionTables::of_kind(std::uint32_t id, bool dense) {
  RegionTable& table = find(id);
  ARGOSY_CHECK(
      table.spec.is_dense == dense,
      "[ps.server] table {} ('{}') is {}, expected a {} one",
      id,
      table.spec.name(),
      dense ? "sparse" : "dense",
      dense ? "dense" : "sparse");
  return table;
}

void RegionTables::begin_cut(SaveMode mode) {
  ARGOSY_CHECK(!has_cut(), "[ps.save] another save is under way");
  for (auto& [id, table] : tables_) {
    if (table.sparse) {
      table.sparse->begin_snapshot(mode);
    }
  }
  cut_table_ = 0;
}

bool RegionTables::next_rows(
    std::size_t max_rows, std::uint32_t& id, RowBatch& rows) {
  rows.clear();
  for (auto it = tables_.lower_bound(*cut_table_); it != tables_.end(); ++it) {
    if (!it->second.sparse) {
      continue;
    }
    cut_table_ = it->first;
    SparseTable& table = *it->second.sparse;
    for (int i = 0; i < table.num_partitions(); ++i) {
      if (table.partition(i).next_slice(max_rows, rows)) {
        id = it->first;
        return true;
      }
    }
  }
  return false;
}

void RegionTables::end_cut(bool commit) {
  if (!has_cut()) {
    return;
  }
  cut_table_.reset();
  for (auto& [id, table] : tables_) {
    if (table.sparse && commit) {
      table.sparse->commit_snapshot();
    } else if (table.sparse) {
      table.sparse->abort_snapshot();
    }
  }
}

void RegionTables::save_header(ByteWriter& out) {
  out.put(static_cast<std::uint32_t>(tables_.size()));
  for (auto& [id, table] : tables_) {
    out.text(encode(table.spec));
    out.put(table.learning_rate.has_value());
    out.put(table.learning_rate.value_or(0));
    table.last_rows.save(out);
    put_floats(out, table.last_values);
    if (table.dense) {
      save_dense_state(out, *table.dense);
    }
  }
}

void RegionTables::load_header(ByteReader& in, const JobSpec& job) {
  tables_.clear();
  const std::size_t count = in.count(4);
  for (std::size_t i = 0; i < count; ++i) {
    const TableSpec spec = decode_table(in.text());
    create(spec, job);
    RegionTable& table = find(static_cast<std::uint32_t>(spec.id()));
    const bool has_rate = in.get<std::uint8_t>() != 0;
    const auto rate = in.get<float>();
    table.last_rows.load(in);
    table.last_values = get_floats(in);
    if (table.dense) {
      load_dense_state(in, *table.dense);
    }
    if (has_rate) {
      table.learning_rate = rate;
      table.dense ? table.dense->set_learning_rate(rate)
                  : table.sparse->set_learning_rate(rate);
    }
  }
}

// Who asked for which rows before is not known any more: everybody gets all,
// which is more than needed and not wrong.
void RegionTables::finish_load(const JobSpec& job) {
  if (!job.geo) {
    return;
  }
  begin_cut(SaveMode::Checkpoint);
  std::uint32_t id = 0;
  RowBatch rows;
  while (next_rows(65536, id, rows)) {
    for (int worker = 0; worker < std::min(job.num_workers, 2); ++worker) {
      find(id).changed->record(worker, rows.keys);
    }
  }
  end_cut(false);
}

} // namespace argosy::ps
