#include "argosy/ps/worker/lookup_tape.h"

#include <algorithm>
#include <utility>

namespace argosy::ps {

void LookupTape::add(std::uint32_t table, UniqueIds ids, at::Tensor rows) {
  const std::lock_guard lock(mutex_);
  lookups_[std::this_thread::get_id()].push_back(
      {table, std::move(ids), std::move(rows)});
}

// A record for each key: the gradient, behind slot, show and click if the table
// counts them. An id that stands in a batch twice was shown twice.
std::vector<float> LookupTape::records_of(
    const Lookup& lookup, const RowLayout& layout) {
  const at::Tensor grad =
      lookup.rows.grad().to(at::kFloat).to_dense().contiguous();
  const auto pull_dim = static_cast<std::size_t>(layout.pull_dim);
  const auto push_dim = static_cast<std::size_t>(layout.push_dim);
  const auto first_pull = static_cast<std::size_t>(
      layout.pull_embed >= 0 ? layout.pull_embed : layout.pull_embedx);
  const auto first_push = static_cast<std::size_t>(
      layout.push_embed >= 0 ? layout.push_embed : layout.push_embedx);
  const float* from = grad.data_ptr<float>();
  std::vector<float> records(lookup.ids.keys.size() * push_dim);
  for (std::size_t i = 0; i < lookup.ids.keys.size(); ++i) {
    float* to = records.data() + i * push_dim;
    if (layout.has_ctr()) {
      to[layout.push_show] = lookup.ids.counts[i];
    }
    std::copy(
        from + i * pull_dim + first_pull,
        from + (i + 1) * pull_dim,
        to + first_push);
  }
  return records;
}

Gradients LookupTape::take(const Client& client) {
  std::vector<Lookup> own;
  {
    const std::lock_guard lock(mutex_);
    own = std::move(lookups_[std::this_thread::get_id()]);
    lookups_.erase(std::this_thread::get_id());
  }
  Gradients gradients;
  for (const Lookup& lookup : own) {
    if (lookup.rows.grad().defined() && !lookup.ids.keys.empty()) {
      const RowLayout& layout = client.layout(lookup.table);
      Gradients one;
      one.sparse.push_back(
          {lookup.table, lookup.ids.keys, records_of(lookup, layout)});
      merge(gradients, one, client);
    }
  }
  return gradients;
}

} // namespace argosy::ps
