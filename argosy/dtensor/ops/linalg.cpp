// Linear algebra on each matrix of a batch: the dims before the last two may be
// cut. What looks for errors in the results stays with all ranks, so that all
// throw.

#include <algorithm>

#include "argosy/dtensor/ops/families.h"

namespace argosy::dtensor {

namespace {

bool starts_with(const Shape& shape, const Shape& batch) {
  return shape.size() >= batch.size() &&
      std::equal(batch.begin(), batch.end(), shape.begin());
}

// Whether all inputs have the same batch, and each output has it or nothing.
bool is_batch_of_all(const OpCall& call, const Shape& batch) {
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    if (!starts_with(call.shape(i), batch)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < call.num_outputs(); ++i) {
    const Shape& out = call.out_shape(i);
    if (!starts_with(out, batch) && (out.empty() || numel(out) != 0)) {
      return false;
    }
  }
  return true;
}

std::vector<Strategy> batches(const OpCall& call) {
  const Shape& first = call.shape(0);
  if (first.size() < 3) {
    return {};
  }
  const Shape batch(first.begin(), first.end() - 2);
  if (!is_batch_of_all(call, batch)) {
    return {};
  }
  std::vector<Strategy> strategies;
  for (std::size_t dim = 0; dim < batch.size(); ++dim) {
    const Placement shard = Shard(static_cast<int>(dim));
    Strategy strategy = call.strategy();
    strategy.inputs.assign(call.num_inputs(), shard);
    for (std::size_t i = 0; i < call.num_outputs(); ++i) {
      if (starts_with(call.out_shape(i), batch)) {
        strategy.outputs[i] = shard;
      }
    }
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

} // namespace

void add_linalg_rules(RuleTable& table) {
  table.add(
      "_linalg_det _linalg_slogdet _linalg_solve_ex cholesky_inverse "
      "cholesky_solve geqrf linalg_cholesky_ex linalg_householder_product "
      "linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu "
      "linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_qr "
      "linalg_solve_triangular lu_unpack triangular_solve",
      {.strategies = batches});
}

} // namespace argosy::dtensor
