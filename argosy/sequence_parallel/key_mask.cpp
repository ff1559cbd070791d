#include "argosy/sequence_parallel/key_mask.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::sequence_parallel {

void check_options(
    const AttentionOptions& options,
    std::int64_t batch,
    std::int64_t length,
    const char* op) {
  ARGOSY_CHECK(
      options.dropout >= 0 && options.dropout < 1,
      "[sequence_parallel.{}] dropout {}, expected at least 0 and less than 1",
      op,
      options.dropout);
  const at::Tensor& mask = options.key_padding_mask;
  if (!mask.defined()) {
    return;
  }
  ARGOSY_CHECK(
      mask.sizes() == at::IntArrayRef({batch, length}) &&
          (mask.scalar_type() == at::kBool || mask.is_floating_point()),
      "[sequence_parallel.{}] key_padding_mask {} {}, expected bool or "
      "floating, [batch, length of this rank's keys], [{}, {}]",
      op,
      mask.scalar_type(),
      mask.sizes(),
      batch,
      length);
  ARGOSY_CHECK(
      !mask.requires_grad(),
      "[sequence_parallel.{}] key_padding_mask requires a gradient, and gets "
      "none; detach() it",
      op);
}

// Parts of unequal length are filled up, because collectives take buffers of
// one size.
Tensors gather_key_masks(
    const at::Tensor& own, const SequenceSplit& split, const GroupPtr& group) {
  const int n = split.nranks();
  if (!own.defined()) {
    return Tensors(static_cast<std::size_t>(n));
  }
  if (n == 1) {
    return {own.contiguous()};
  }
  std::int64_t longest = 0;
  for (int rank = 0; rank < n; ++rank) {
    longest = std::max(longest, split.length(rank));
  }
  const std::int64_t batch = own.size(0);
  const at::Tensor in = at::zeros({batch, longest}, own.options());
  in.narrow(1, 0, own.size(1)).copy_(own);
  const at::Tensor all = at::empty({n, batch, longest}, own.options());
  all_gather(all, in, group);
  Tensors masks;
  for (int rank = 0; rank < n; ++rank) {
    masks.push_back(all[rank].narrow(1, 0, split.length(rank)).contiguous());
  }
  return masks;
}

std::uint64_t dropout_seed(
    const AttentionOptions& options, const GroupPtr& group) {
  if (options.dropout == 0) {
    return 0;
  }
  if (options.dropout_seed) {
    return *options.dropout_seed;
  }
  // An op, so that it draws from the stream in whose scope the caller is, and
  // recompute() repeats it.
  const at::Tensor seed = at::empty({1}, at::kLong).random_();
  if (group != nullptr && group->nranks() > 1) {
    broadcast(seed, group->ranks().front(), group);
  }
  return static_cast<std::uint64_t>(seed.item<std::int64_t>());
}

} // namespace argosy::sequence_parallel
