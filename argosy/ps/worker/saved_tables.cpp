#include "argosy/ps/worker/saved_tables.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <filesystem>
#include <map>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/table/save.h"

namespace argosy::ps {

namespace {

constexpr char kSpecEnding[] = ".table";
constexpr auto kReadLimit = std::chrono::hours(1);

} // namespace

void write_table_specs(const Client& client, const std::string& folder) {
  for (const TableSpec& spec : client.sparse_specs()) {
    write_file(
        std::filesystem::path(folder) / (spec.name() + kSpecEnding),
        encode(spec));
  }
}

struct SavedTables::Impl {
  std::map<std::string, std::unique_ptr<SparseTable>> tables;
};

SavedTables::SavedTables(const std::string& folder)
    : impl_(std::make_unique<Impl>()) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != kSpecEnding) {
      continue;
    }
    TableSpec spec = decode_table(read_file(entry.path()).value_or(""));
    // Nothing is trained here.
    spec.sparse.unknown_key = UnknownKey::Zeros;
    spec.sparse.on_ssd = false;
    auto table = std::make_unique<SparseTable>(spec.sparse);
    load_sparse(*table, folder, Deadline::after(kReadLimit));
    impl_->tables[spec.name()] = std::move(table);
  }
}

SavedTables::~SavedTables() = default;

at::Tensor SavedTables::lookup(
    const std::string& name, const at::Tensor& ids, std::int64_t padding_idx) {
  const auto found = impl_->tables.find(name);
  ARGOSY_CHECK(
      found != impl_->tables.end(),
      "[ps.saved_tables] table '{}' is not among the {} that were saved",
      name,
      impl_->tables.size());
  SparseTable& table = *found->second;
  const at::Tensor flat = ids.to(at::kLong).contiguous().view({-1});
  const auto count = static_cast<std::size_t>(flat.numel());
  const std::int64_t* id = flat.data_ptr<std::int64_t>();
  const std::vector<std::uint64_t> keys(id, id + count);
  const std::int64_t dim = table.layout().pull_dim;
  at::Tensor rows = at::empty({flat.numel(), dim}, at::kFloat);
  table.pull(
      keys,
      {rows.data_ptr<float>(), count * static_cast<std::size_t>(dim)},
      false);
  rows.masked_fill_(flat.eq(padding_idx).unsqueeze(1), 0);
  auto sizes = ids.sizes().vec();
  sizes.push_back(dim);
  return rows.view(sizes);
}

} // namespace argosy::ps
