#include "argosy/ps/worker/saved_tables.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/table/save.h"
#include "argosy/ps/worker/table_parameters.h"

namespace argosy::ps {

namespace {

constexpr char kSpecEnding[] = ".table";
constexpr char kModel[] = "model.pt";
constexpr auto kReadLimit = std::chrono::hours(1);
constexpr std::int64_t kRowsAtOnce = 65536;

bool has_tables(const torch::nn::Module& module) {
  const auto parameters = module.parameters();
  return std::ranges::any_of(parameters, is_table);
}

// As Module::save(), which has no way to leave out parameters.
void write(
    const torch::nn::Module& module, torch::serialize::OutputArchive& archive) {
  if (!has_tables(module)) {
    module.save(archive);
    return;
  }
  for (const auto& item : module.named_parameters(false)) {
    if (!is_table(item.value())) {
      archive.write(item.key(), item.value());
    }
  }
  for (const auto& item : module.named_buffers(false)) {
    archive.write(item.key(), item.value(), true);
  }
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      torch::serialize::OutputArchive inner(archive.compilation_unit());
      write(*child.value(), inner);
      archive.write(child.key(), inner);
    }
  }
}

// Rows of a table become the weight's.
void fill(SavedTables& tables, const std::string& name, at::Tensor& weight) {
  for (std::int64_t i = 0; i < weight.size(0); i += kRowsAtOnce) {
    const std::int64_t end = std::min(i + kRowsAtOnce, weight.size(0));
    weight.slice(0, i, end).copy_(tables.lookup(name, at::arange(i, end)));
  }
}

// The counterpart of write().
void read(
    torch::nn::Module& module,
    const std::string& path,
    torch::serialize::InputArchive& archive,
    SavedTables& tables) {
  const std::string prefix = path.empty() ? "" : path + ".";
  for (auto& item : module.named_parameters(false)) {
    if (tables.has(prefix + item.key())) {
      fill(tables, prefix + item.key(), item.value());
    } else {
      archive.read(item.key(), item.value());
    }
  }
  for (auto& item : module.named_buffers(false)) {
    archive.read(item.key(), item.value(), true);
  }
  for (const auto& child : module.named_children()) {
    if (child.value()->is_serializable()) {
      torch::serialize::InputArchive inner;
      archive.read(child.key(), inner);
      read(*child.value(), prefix + child.key(), inner, tables);
    }
  }
}

} // namespace

void save_dense_weights(
    const torch::nn::Module& module, const std::string& file) {
  torch::serialize::OutputArchive archive;
  write(module, archive);
  archive.save_to(file);
}

void load_inference_model(
    const std::string& folder, torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  SavedTables tables(folder);
  const std::string file = (std::filesystem::path(folder) / kModel).string();
  torch::serialize::InputArchive archive;
  try {
    archive.load_from(file);
    read(module, "", archive, tables);
  } catch (const c10::Error& error) {
    throw CheckpointError(str_format(
        "[ps.load_inference_model] {}: {}",
        file,
        error.what_without_backtrace()));
  }
}

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

bool SavedTables::has(const std::string& table) const {
  return impl_->tables.contains(table);
}

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
