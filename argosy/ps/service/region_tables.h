#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/ps/service/last_step.h"
#include "argosy/ps/service/table_spec.h"
#include "argosy/ps/table/dense_table.h"
#include "argosy/ps/table/geo_recorder.h"
#include "argosy/ps/table/sparse_table.h"

namespace argosy::ps {

class ByteReader;
class ByteWriter;

// One region's part of a table, and what the service keeps beside it.
struct RegionTable {
  TableSpec spec;
  std::optional<float> learning_rate{}; // if it was set after the creation
  std::unique_ptr<SparseTable> sparse{};
  std::unique_ptr<DenseTable> dense{};
  LastStep last_rows{};                   // sparse
  std::vector<float> last_values{};       // dense
  std::unique_ptr<GeoRecorder> changed{}; // geo
  // What each worker took last: given again if it asks again.
  std::map<std::uint32_t, std::vector<std::uint64_t>> taken{};

  int push_dim() const { return sparse->layout().push_dim; }
  int pull_dim() const { return sparse->layout().pull_dim; }
};

// A dense table's values and state as bytes, and back.
std::string encode_dense(const DenseTable& table);
void decode_dense(std::string_view bytes, DenseTable& table);

// A region's part of all tables. One thread at a time.
class RegionTables {
 public:
  RegionTables(int region, int num_regions)
      : region_(region), num_regions_(num_regions) {}

  int region() const { return region_; }
  int num_regions() const { return num_regions_; }

  // Does nothing if the table exists with the same spec. Throws InvalidArgument
  // if it exists with another one.
  void create(const TableSpec& spec, const JobSpec& job);

  // Throw InvalidArgument, naming the table, if it does not exist or is of the
  // other kind.
  RegionTable& find(std::uint32_t id);
  RegionTable& sparse(std::uint32_t id) { return of_kind(id, false); }
  RegionTable& dense(std::uint32_t id) { return of_kind(id, true); }

  // Ascending.
  std::map<std::uint32_t, RegionTable>& all() { return tables_; }

  void clear() { tables_.clear(); }

  // A consistent cut of all sparse rows beside traffic: see
  // Partition::begin_snapshot().
  void begin_cut(SaveMode mode);
  bool has_cut() const { return cut_table_.has_value(); }
  // The next rows and their table; false at the end.
  bool next_rows(std::size_t max_rows, std::uint32_t& table, RowBatch& rows);
  void end_cut(bool commit);

  // All but the rows of sparse tables.
  void save_header(ByteWriter& out);
  void load_header(ByteReader& in, const JobSpec& job);
  // After the last rows were imported.
  void finish_load(const JobSpec& job);

 private:
  RegionTable& of_kind(std::uint32_t id, bool dense);

  int region_;
  int num_regions_;
  std::map<std::uint32_t, RegionTable> tables_;
  std::optional<std::uint32_t> cut_table_; // from which rows are read next
};

} // namespace argosy::ps
