#include "argosy/ps/worker/unique_ids.h"

#include <ATen/ops/empty.h>

#include "argosy/common/error.h"
#include "argosy/ps/client/key_plan.h"

namespace argosy::ps {

UniqueIds unique_ids(
    const at::Tensor& ids, std::int64_t padding_idx, const std::string& table) {
  ARGOSY_CHECK(
      ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt,
      "[ps.lookup] ids of table '{}' are {}, expected integers",
      table,
      ids.scalar_type());
  const at::Tensor flat = ids.to(at::kLong).contiguous().view({-1});
  const std::int64_t* id = flat.data_ptr<std::int64_t>();
  const auto count = static_cast<std::size_t>(flat.numel());
  std::vector<std::uint64_t> keys;
  keys.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ARGOSY_CHECK(
        id[i] >= 0 || id[i] == padding_idx,
        "[ps.lookup] id {} of table '{}', expected 0 or more",
        id[i],
        table);
    if (id[i] != padding_idx) {
      keys.push_back(static_cast<std::uint64_t>(id[i]));
    }
  }
  KeyPlan plan;
  KeyPlanner({1, 1}).plan(keys, plan);
  UniqueIds result{std::move(plan.keys), {}, at::empty(ids.sizes(), at::kLong)};
  result.counts.resize(result.keys.size());
  for (const auto place : plan.position) {
    ++result.counts[place];
  }
  std::int64_t* position = result.positions.data_ptr<std::int64_t>();
  for (std::size_t i = 0, k = 0; i < count; ++i) {
    position[i] = id[i] == padding_idx
        ? static_cast<std::int64_t>(result.keys.size())
        : static_cast<std::int64_t>(plan.position[k++]);
  }
  return result;
}

} // namespace argosy::ps
