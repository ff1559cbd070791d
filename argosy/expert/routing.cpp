#include "argosy/expert/routing.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "argosy/common/error.h"
#include "argosy/expert/expert_cut.h"

namespace argosy::expert {

namespace {

// Returns a contiguous tensor, so that loops can use pointers.
at::Tensor numbers_of(const at::Tensor& tensor, const char* what) {
  ARGOSY_CHECK(
      tensor.scalar_type() == at::kLong,
      "[expert.routing] {} are {}, expected int64",
      what,
      c10::toString(tensor.scalar_type()));
  return tensor.contiguous();
}

struct Numbers {
  explicit Numbers(const at::Tensor& tensor)
      : data(tensor.data_ptr<std::int64_t>()), size(tensor.numel()) {}

  std::int64_t* begin() const { return data; }
  std::int64_t* end() const { return data + size; }
  std::int64_t& operator[](std::int64_t i) const { return data[i]; }

  std::int64_t* const data;
  const std::int64_t size;
};

void check_expert(std::int64_t expert, std::int64_t upper) {
  ARGOSY_CHECK(
      expert >= -1 && expert < upper,
      "[expert.routing] expert {} is not in [-1, {})",
      expert,
      upper);
}

// How many counts go to and come from each rank.
struct CountSplits {
  static CountSplits of(std::int64_t num_experts, const Group& group) {
    const int ranks = group.nranks();
    const std::int64_t own =
        experts_of(num_experts, {ranks, group.rank()}).size;
    return {
        experts_by_rank(num_experts, ranks),
        std::vector<std::int64_t>(static_cast<std::size_t>(ranks), own)};
  }

  std::int64_t num_by_source() const {
    return by_source.front() * static_cast<std::int64_t>(by_source.size());
  }

  std::vector<std::int64_t> by_expert;
  std::vector<std::int64_t> by_source;
};

} // namespace

at::Tensor number_count(const at::Tensor& experts, std::int64_t upper) {
  const at::Tensor chosen = numbers_of(experts, "experts");
  at::Tensor counts = at::zeros({upper}, at::kLong);
  const Numbers out(counts);
  for (const std::int64_t expert : Numbers(chosen)) {
    check_expert(expert, upper);
    if (expert >= 0) {
      ++out[expert];
    }
  }
  return counts;
}

at::Tensor assign_pos(const at::Tensor& experts, const at::Tensor& cum_count) {
  const at::Tensor chosen = numbers_of(experts, "experts");
  const at::Tensor ends = numbers_of(cum_count, "counts").clone();
  const Numbers in(chosen);
  const Numbers next(ends);
  at::Tensor places =
      at::empty({next.size > 0 ? next[next.size - 1] : 0}, at::kLong);
  const Numbers out(places);
  // Goes backwards: each choice takes the last free position of its expert,
  // which keeps the order.
  for (std::int64_t i = in.size - 1; i >= 0; --i) {
    check_expert(in[i], next.size);
    if (in[i] >= 0) {
      const std::int64_t place = --next[in[i]];
      ARGOSY_CHECK(
          place >= 0 && place < out.size,
          "[expert.routing] more choices of expert {} than its count",
          in[i]);
      out[place] = i;
    }
  }
  return places;
}

at::Tensor limit_by_capacity(
    const at::Tensor& expert_count,
    const at::Tensor& capacity,
    std::int64_t num_ranks) {
  const at::Tensor counts = numbers_of(expert_count, "counts");
  const at::Tensor left = numbers_of(capacity, "capacities").clone();
  const Numbers in(counts);
  const Numbers free(left);
  ARGOSY_CHECK(
      in.size == free.size * num_ranks,
      "[expert.routing] {} counts, expected those of {} experts on {} ranks",
      in.size,
      free.size,
      num_ranks);
  at::Tensor limited = at::empty_like(counts);
  const Numbers out(limited);
  for (std::int64_t i = 0; i < in.size; ++i) {
    // Counts are ordered by (rank, expert): the first ranks are served first.
    std::int64_t& room = free[i % free.size];
    out[i] = std::min(in[i], room);
    room -= out[i];
  }
  return limited;
}

at::Tensor prune_gate_by_capacity(
    const at::Tensor& experts, const at::Tensor& expert_count) {
  at::Tensor kept = numbers_of(experts, "experts").clone();
  const at::Tensor left = numbers_of(expert_count, "counts").clone();
  const Numbers room(left);
  for (std::int64_t& expert : Numbers(kept)) {
    check_expert(expert, room.size);
    if (expert >= 0 && --room[expert] < 0) {
      expert = -1;
    }
  }
  return kept;
}

at::Tensor random_routing(
    const at::Tensor& experts,
    const at::Tensor& value,
    const at::Tensor& chance) {
  ARGOSY_CHECK(
      experts.dim() == 2 && experts.size(1) == 2 &&
          value.sizes() == experts.sizes() && chance.numel() == experts.size(0),
      "[expert.random_routing] choices {}, values {} and chances {}, expected "
      "[tokens, 2] twice and [tokens]",
      experts.sizes(),
      value.sizes(),
      chance.sizes());
  // GShard keeps the second choice with a probability of twice its weight.
  const at::Tensor drops = (value.select(1, 1) * 2).lt(chance.reshape({-1}));
  at::Tensor kept = experts.clone(at::MemoryFormat::Contiguous);
  kept.select(1, 1).masked_fill_(drops, -1);
  return kept;
}

// Transposed, so that the first choices of all tokens come before any second
// choice: a second choice must not take a first one's place.
at::Tensor limit_by_source(
    const at::Tensor& experts,
    std::int64_t num_experts,
    std::int64_t capacity) {
  return prune_gate_by_capacity(
             experts.t(), at::full({num_experts}, capacity, at::kLong))
      .t()
      .contiguous();
}

// The owner of an expert decides how many rows of each rank it takes, in rank
// order, and tells the ranks, which then drop the rest.
at::Tensor limit_over_ranks(
    const at::Tensor& experts,
    std::int64_t num_experts,
    std::int64_t capacity,
    const GroupPtr& group) {
  const std::int64_t ranks = group->nranks();
  const at::Tensor wanted =
      exchange_counts(number_count(experts, num_experts), group);
  const at::Tensor taken = limit_by_capacity(
      wanted, at::full({wanted.numel() / ranks}, capacity, at::kLong), ranks);
  return prune_gate_by_capacity(
      experts, return_counts(taken, num_experts, group));
}

at::Tensor exchange_counts(const at::Tensor& counts, const GroupPtr& group) {
  if (group->nranks() == 1) {
    return counts.clone();
  }
  const auto cut = CountSplits::of(counts.numel(), *group);
  at::Tensor received = at::empty({cut.num_by_source()}, counts.options());
  alltoall_single(
      received, counts, {.out = cut.by_source, .in = cut.by_expert}, group);
  return received;
}

at::Tensor return_counts(
    const at::Tensor& counts, std::int64_t num_experts, const GroupPtr& group) {
  const auto cut = CountSplits::of(num_experts, *group);
  ARGOSY_CHECK(
      counts.numel() == cut.num_by_source(),
      "[expert.return_counts] {} counts, expected {}: one for each rank and "
      "each expert of this rank",
      counts.numel(),
      cut.num_by_source());
  if (group->nranks() == 1) {
    return counts.clone();
  }
  at::Tensor received = at::empty({num_experts}, counts.options());
  alltoall_single(
      received, counts, {.out = cut.by_expert, .in = cut.by_source}, group);
  return received;
}

} // namespace argosy::expert
