#include "bindings/python/sparse.h"

#include <ATen/ATen.h>

#include <vector>

#include "argosy/comm/tensors.h"
#include "argosy/common/error.h"
#include "bindings/python/operations.h"

namespace argosy::python {

namespace {

using Counts = std::vector<std::int64_t>;

// Concatenates the rows of all ranks in rank order; columns must be equal. Uses
// an all-to-all that sends the same rows to every rank, because all_gather_op()
// takes equal numbers of rows.
at::Tensor gather_rows(
    const at::Tensor& own,
    const Counts& rows,
    int rank,
    comm::Backend& backend,
    Deadline deadline) {
  const int num_ranks = static_cast<int>(rows.size());
  std::vector<at::Tensor> all;
  for (const std::int64_t count : rows) {
    auto sizes = own.sizes().vec();
    sizes[0] = count;
    all.push_back(at::empty(sizes, own.options()));
  }
  const std::vector<at::Tensor> to_all(rows.size(), own);
  comm::execute(
      {all_to_all_op(all, to_all, num_ranks)}, rank, backend, deadline);
  return at::cat(all);
}

// The number of entries of each rank; shapes must be equal.
Counts gather_counts(
    const at::Tensor& tensor,
    int rank,
    int num_ranks,
    comm::Backend& backend,
    Deadline deadline) {
  Counts own = {tensor._nnz(), tensor.sparse_dim()};
  own.insert(own.end(), tensor.sizes().begin(), tensor.sizes().end());
  const auto length = static_cast<std::int64_t>(own.size());
  const at::Tensor all = at::empty({num_ranks, length}, at::kLong);
  comm::execute(
      {all_gather_op(all, at::tensor(own), num_ranks)},
      rank,
      backend,
      deadline);
  Counts counts;
  for (int peer = 0; peer < num_ranks; ++peer) {
    const auto* theirs = all[peer].data_ptr<std::int64_t>();
    ARGOSY_CHECK(
        std::equal(own.begin() + 1, own.end(), theirs + 1),
        "[comm.all_reduce] rank {} has a sparse tensor of {}, rank {} one of "
        "{}",
        rank,
        tensor.sizes(),
        peer,
        c10::IntArrayRef(theirs + 2, own.size() - 2));
    counts.push_back(theirs[0]);
  }
  return counts;
}

} // namespace

void check_sparse(const at::Tensor& tensor) {
  ARGOSY_CHECK(
      tensor.layout() == c10::kSparse,
      "[comm.all_reduce] a tensor of layout {}, expected a dense or a sparse "
      "one",
      tensor.layout());
  check_tensor(tensor._values(), "all_reduce");
}

// Gathers the entries of all ranks everywhere and adds those with equal
// indices. Every rank receives all entries, so this is cheap only while few
// elements are set.
void sparse_all_reduce(
    const at::Tensor& tensor,
    int rank,
    int num_ranks,
    comm::Backend& backend,
    Deadline deadline) {
  const at::Tensor own = tensor.coalesce();
  const Counts counts = gather_counts(own, rank, num_ranks, backend, deadline);
  const at::Tensor indices = gather_rows(
      own.indices().t().contiguous(), counts, rank, backend, deadline);
  const at::Tensor values =
      gather_rows(own.values(), counts, rank, backend, deadline);
  tensor.copy_(
      at::sparse_coo_tensor(indices.t(), values, tensor.sizes()).coalesce());
}

} // namespace argosy::python
