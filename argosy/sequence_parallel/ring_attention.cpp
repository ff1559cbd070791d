#include "argosy/sequence_parallel/ring_attention.h"

// Included first: clang 14 needs IValue complete before tensors.
#include <ATen/core/ivalue.h>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/sequence_parallel/key_mask.h"
#include "argosy/sequence_parallel/ring_travel.h"
#include "argosy/sequence_parallel/split_group.h"
#include "argosy/sequence_parallel/tiled_attention.h"
#include "argosy/torch_hooks/autocast.h"
#include "argosy/trace/recorded_call.h"

namespace argosy {

namespace {

using sequence_parallel::Attended;
using sequence_parallel::AttentionBackward;
using sequence_parallel::AttentionForward;
using sequence_parallel::AttentionRules;
using sequence_parallel::GradientTravel;
using sequence_parallel::KeyBlock;
using sequence_parallel::KeysAndValues;
using sequence_parallel::KeyTravel;
using sequence_parallel::Ring;
using torch::autograd::AutogradContext;

// What backward needs besides tensors.
struct Call : torch::CustomClassHolder {
  Call(
      const GroupPtr& group,
      const SequenceSplit& split,
      const AttentionOptions& options,
      double scale)
      : ring(group, split, options.causal),
        masks(sequence_parallel::gather_key_masks(
            options.key_padding_mask, split, group)),
        rules{
            scale,
            {options.dropout,
             sequence_parallel::dropout_seed(options, group),
             options.first_head},
            split.positions(ring.rank())} {}

  // The keys of a step, with what belongs to them.
  KeyBlock block(int step, const KeysAndValues& here) const {
    const int owner = ring.plan().owner(ring.rank(), step);
    return {
        here.keys,
        here.values,
        masks[static_cast<std::size_t>(owner)],
        ring.split().positions(owner)};
  }

  const Ring ring;
  const Tensors masks; // of the keys of each rank
  const AttentionRules rules;
};

// Ring attention: queries stay, keys and values go round. In step t a rank
// attends to the keys of the t-th rank before it, while those of the next step
// arrive. With n ranks there are n steps and n - 1 transfers of a rank's keys
// and values, fewer where a causal mask ends the journey early; a rank holds
// two foreign blocks at most. AttentionForward merges the steps.
Attended attend(
    const Call& call, const at::Tensor& query, const KeysAndValues& own) {
  AttentionForward sum(query, own.keys, own.values, call.rules);
  KeyTravel travel(call.ring, own);
  for (int step = 0; step < call.ring.nranks(); ++step) {
    travel.begin_next(step);
    sum.add(call.block(step, travel.here()), call.ring.blocks(step));
    travel.end_next();
  }
  return sum.finish();
}

// Sends the keys round once more instead of saving those of all ranks. The
// gradients of keys and values travel behind them and collect each rank's
// share; see GradientTravel.
torch::autograd::variable_list differentiate(
    const Call& call,
    const at::Tensor& query,
    const KeysAndValues& own,
    const Attended& attended,
    const at::Tensor& gradient) {
  AttentionBackward sum(query, own.keys, attended, gradient, call.rules);
  KeyTravel travel(call.ring, own);
  GradientTravel gradients(call.ring, own, sum.sums());
  for (int step = 0; step < call.ring.nranks(); ++step) {
    // Before begin_next(): messages of two ranks match in the order of posting,
    // and gradients and keys come from the same neighbour.
    gradients.begin(step);
    travel.begin_next(step);
    const KeysAndValues& place = gradients.place();
    sum.add(
        call.block(step, travel.here()),
        call.ring.blocks(step),
        place.keys,
        place.values);
    gradients.end(step);
    travel.end_next();
  }
  const KeysAndValues all = gradients.finish();
  const at::ScalarType dtype = query.scalar_type();
  return {sum.query_gradient(), all.keys.to(dtype), all.values.to(dtype), {}};
}

// Tiles have chosen types: inputs as they come, and sums in float32. Autocast
// would cast them again, op by op.
using NoAutocast = torch_hooks::AutocastScope;

struct RingAttention : torch::autograd::Function<RingAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const c10::intrusive_ptr<Call>& call) {
    const NoAutocast scope(torch_hooks::without_autocast());
    const KeysAndValues own{key.contiguous(), value.contiguous()};
    const Attended attended = attend(*call, query, own);
    context->save_for_backward(
        {query, own.keys, own.values, attended.out, attended.log_sum});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return attended.out;
  }

  static torch::autograd::variable_list backward(
      AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    ARGOSY_CHECK(
        !at::GradMode::is_enabled(),
        "[sequence_parallel.ring_attention] has no second derivative, expected "
        "backward without create_graph");
    const NoAutocast scope(torch_hooks::without_autocast());
    const auto saved = context->get_saved_variables();
    const auto call = context->saved_data["call"].toCapsule();
    return differentiate(
        static_cast<const Call&>(*call),
        saved[0],
        {saved[1], saved[2]},
        {saved[3], saved[4]},
        gradients[0]);
  }
};

void check_shapes(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    std::int64_t length) {
  ARGOSY_CHECK(
      query.dim() == 4 && key.dim() == 4 && value.dim() == 4,
      "[sequence_parallel.ring_attention] query {}, key {}, value {}, expected "
      "[batch, heads, length, dim] each",
      query.sizes(),
      key.sizes(),
      value.sizes());
  ARGOSY_CHECK(
      query.size(0) == key.size(0) && query.size(3) == key.size(3) &&
          key.sizes().slice(0, 3) == value.sizes().slice(0, 3) &&
          (key.size(1) == 0 ? query.size(1) == 0
                            : query.size(1) % key.size(1) == 0),
      "[sequence_parallel.ring_attention] query {} does not match key {} and "
      "value {}",
      query.sizes(),
      key.sizes(),
      value.sizes());
  ARGOSY_CHECK(
      query.size(2) == length && key.size(2) == length,
      "[sequence_parallel.ring_attention] lengths {} and {}, expected this "
      "rank's part of the sequence, {}",
      query.size(2),
      key.size(2),
      length);
}

void check_types(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  ARGOSY_CHECK(
      query.is_floating_point() && query.scalar_type() == key.scalar_type() &&
          query.scalar_type() == value.scalar_type(),
      "[sequence_parallel.ring_attention] types {}, {}, {}, expected one and "
      "floating",
      query.scalar_type(),
      key.scalar_type(),
      value.scalar_type());
}

// Under autocast, attention is a product as any other: its inputs are cast.
at::Tensor attention(
    const Tensors& inputs, const c10::intrusive_ptr<Call>& call) {
  const auto cast = [&](std::size_t i) {
    return torch_hooks::cast_as_autocast(inputs[i], "bmm");
  };
  const at::Tensor query = cast(0);
  const at::Tensor key = cast(1);
  const at::Tensor value = cast(2);
  check_types(query, key, value);
  return RingAttention::apply(query, key, value, call);
}

at::Tensor run(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const GroupPtr& group,
    const AttentionOptions& options) {
  const std::int64_t length = split.length(group ? group->rank() : 0);
  check_shapes(query, key, value, length);
  sequence_parallel::check_options(
      options, key.size(0), length, "ring_attention");
  const double scale = options.scale.value_or(
      1 /
      std::sqrt(static_cast<double>(std::max<std::int64_t>(query.size(3), 1))));
  // For a recording one op, which draws a seed and gathers masks in each run.
  const auto call = [group, split, options, scale](const Tensors& in) {
    AttentionOptions own = options;
    own.key_padding_mask = in[3];
    return Tensors{
        attention(in, c10::make_intrusive<Call>(group, split, own, scale))};
  };
  return trace::recorded_call(
      {query, key, value, options.key_padding_mask}, call)[0];
}

} // namespace

at::Tensor ring_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const SequenceSplit& split,
    const GroupPtr& group,
    const AttentionOptions& options) {
  const GroupPtr members =
      sequence_parallel::group_of_split(group, split, "ring_attention");
  return run(query, key, value, split, members, options);
}

at::Tensor tiled_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const AttentionOptions& options) {
  const std::int64_t length = query.dim() == 4 ? query.size(2) : 0;
  return run(query, key, value, contiguous_split(length, 1), nullptr, options);
}

} // namespace argosy
