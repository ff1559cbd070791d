// Convolutions. Batch N, output channels o, input channels c: a shard of c
// leaves a Partial. Groups stay together. A spatial dim that is cut stays cut:
// ranks exchange the halo that the kernel reaches over.

#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"
#include "argosy/dtensor/tensor/decision_cache.h"
#include "argosy/dtensor/tensor/dim_group.h"
#include "argosy/dtensor/tensor/mesh_state.h"

namespace argosy::dtensor {

namespace {

// Where a list has one number for all dims.
std::int64_t entry(const Shape& list, std::size_t i) {
  return list.empty() ? 0 : list[std::min(i, list.size() - 1)];
}

// Letters of tensors, with '-' for spatial dims.
struct Letters {
  std::string input;
  std::string weight;
  std::string output;
};

Letters letters_of(const OpCall& call, std::size_t ndim) {
  const std::string spatial(ndim - 2, '-');
  const bool transposed = call.flag("transposed", false);
  return {"Nc" + spatial, (transposed ? "co" : "oc") + spatial, "No" + spatial};
}

bool has_groups(const OpCall& call) {
  return call.integer("groups", 1) != 1;
}

// No rank may be left without channels: the op has no result for none.
bool may_cut(const OpCall& call, std::size_t input, std::size_t dim) {
  return !may_leave_empty_parts(call, input, dim);
}

// With groups only whole ones, whose channels are together on both sides.
bool may_cut_groups(const OpCall& call, std::size_t input, std::size_t weight) {
  const Shape& in = call.shape(input);
  const Shape& kernel = call.shape(weight);
  const std::int64_t per_group = call.flag("transposed", false)
      ? call.tensor("weight").size(0) / call.integer("groups", 1)
      : kernel[1];
  return per_group > 0 && call.is_even(input, 1) &&
      in[1] / call.axis_size() % per_group == 0;
}

// Letters that may not be cut here become '-'.
void keep_whole(std::vector<std::string>& all, char letter) {
  for (std::string& each : all) {
    std::ranges::replace(each, letter, '-');
  }
}

// Inputs: input, weight, bias.
std::vector<Strategy> convolution(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  if (ndim < 3) {
    return {};
  }
  const bool has_bias = call.num_inputs() > 2;
  const Letters letters = letters_of(call, ndim);
  std::vector<std::string> all{
      letters.input, letters.weight, has_bias ? "o" : "", letters.output};
  const bool transposed = call.flag("transposed", false);
  if (has_groups(call) || !may_cut(call, 0, 1)) {
    keep_whole(all, 'c');
  }
  if (has_groups(call) || !may_cut(call, 1, transposed ? 1 : 0)) {
    keep_whole(all, 'o');
  }
  auto strategies = by_letters(call, {all[0], all[1], all[2]}, {all[3]});
  for (Strategy& each : strategies) {
    if (has_bias && each.outputs[0].is_partial()) {
      each.inputs[2] = Partial(); // so that it is added once
    }
  }
  if (has_groups(call) && may_cut_groups(call, 0, 1)) {
    Strategy groups = call.strategy(Shard(1), Shard(1));
    std::fill(groups.inputs.begin() + 1, groups.inputs.end(), Shard(0));
    strategies.push_back(std::move(groups));
  }
  for (std::size_t dim = 2; dim < ndim && !transposed; ++dim) {
    const Placement cut = Shard(static_cast<int>(dim));
    strategies.push_back(call.strategy(cut, cut));
  }
  return strategies;
}

std::vector<Shape> convolution_shape(const OpCall& call) {
  Shape shape = call.shape(0);
  const Shape& weight = call.shape(1);
  if (shape.size() < 3 || weight.size() != shape.size()) {
    return {};
  }
  const bool transposed = call.flag("transposed", false);
  const Shape stride = call.integers("stride");
  const Shape padding = call.integers("padding");
  const Shape dilation = call.integers("dilation");
  shape[1] = transposed ? weight[1] * call.integer("groups", 1) : weight[0];
  for (std::size_t i = 0; i + 2 < shape.size(); ++i) {
    const std::int64_t reach = entry(dilation, i) * (weight[i + 2] - 1);
    const std::int64_t twice = 2 * entry(padding, i);
    std::int64_t& n = shape[i + 2];
    n = transposed ? (n - 1) * entry(stride, i) - twice + reach +
            entry(call.integers("output_padding"), i) + 1
                   : (n + twice - reach - 1) / entry(stride, i) + 1;
  }
  return {shape};
}

// The groups that are left on a rank, by its share of the output channels.
std::int64_t local_groups(
    const OpCall& call, const Shape& whole, const Shape& local) {
  const std::int64_t groups = call.integer("groups", 1);
  return groups == 1 ? 1 : groups * local[1] / whole[1];
}

Arguments localize(const OpCall& call, const std::vector<Shape>& local_outs) {
  return {
      {"groups",
       local_groups(call, convolution_shape(call)[0], local_outs[0])}};
}

// A call of which some spatial dims of the input are cut.
//
// A rank computes the outputs [b, e) of such a dim. Output i reads the inputs
// from i * stride - padding over dilation * (kernel - 1) + 1 elements, so the
// rank wants the inputs from the first that b reads to the last that e - 1
// reads. `wanted` is the part of these within the input, `held` what a rank
// has; the difference is the halo, which the ranks exchange. Reads before or
// behind the input are padding: zeros, `before` and `after`.
//
// A rank receives only its halo, whatever the size of the input, with one
// all-to-all for each dim that is cut.
class Halos {
 public:
  Halos(
      LocalCall& call,
      std::string_view input,
      std::size_t input_index,
      const Shape& out,
      const Placements& placements)
      : call_(call),
        whole_(call.original(input).toTensor().sizes().vec()),
        kernel_(call.original("weight").toTensor().sizes().vec()),
        input_placements_(call.decision().inputs[input_index].placements) {
    for (std::size_t dim = 2; dim < whole_.size(); ++dim) {
      const DimGroup ranks(
          call.mesh(), static_cast<int>(dim), input_placements_);
      if (ranks.is_cut()) {
        add(ranks, out, placements);
      }
    }
  }

  bool is_empty() const { return dims_.empty(); }

  // The input that this rank's outputs are made of, with padding. Dim by dim,
  // so that the exchange of a later dim carries the corners too.
  at::Tensor gather(at::Tensor input) const {
    for (const Dim& each : dims_) {
      input = each.ranks.exchange(input, each.held, each.wanted);
    }
    Shape shape = input.sizes().vec();
    for (const Dim& each : dims_) {
      shape[static_cast<std::size_t>(each.ranks.dim())] +=
          each.before + each.after;
    }
    // The op pads both sides alike, but only the first and last ranks have
    // padding, each on one side. So the zeros are written here.
    const at::Tensor padded = at::zeros(shape, input.options());
    at::Tensor inner = padded;
    for (const Dim& each : dims_) {
      const int dim = each.ranks.dim();
      inner = inner.narrow(dim, each.before, input.size(dim));
    }
    inner.copy_(input);
    return padded;
  }

  // The transpose of gather(): drops the padding's gradient, returns that of
  // the halos to their owners, who add it up; dims in the opposite order.
  at::Tensor scatter(at::Tensor grad) const {
    for (auto each = dims_.rbegin(); each != dims_.rend(); ++each) {
      const int dim = each->ranks.dim();
      const Range& own = each->wanted[each->ranks.own()];
      grad = each->ranks.exchange_sum(
          grad.narrow(dim, each->before, own.size()), each->wanted, each->held);
    }
    return grad;
  }

  // The padding that is left to the op.
  Shape padding() const {
    Shape padding = call_.argument("padding").toIntVector();
    padding.resize(whole_.size() - 2, padding.back());
    for (const Dim& each : dims_) {
      padding[static_cast<std::size_t>(each.ranks.dim() - 2)] = 0;
    }
    return padding;
  }

 private:
  struct Dim {
    DimGroup ranks;
    Ranges held;
    Ranges wanted; // within the input
    std::int64_t before = 0;
    std::int64_t after = 0; // zeros beside it
  };

  void add(
      const DimGroup& ranks, const Shape& out, const Placements& placements) {
    const auto dim = static_cast<std::size_t>(ranks.dim());
    const auto number = [&](std::string_view name) {
      return entry(call_.argument(name).toIntVector(), dim - 2);
    };
    Dim added{
        .ranks = ranks,
        .held = ranks.ranges(whole_, input_placements_),
        .wanted = {}};
    const Ranges outs = ranks.ranges(out, placements);
    for (std::size_t i = 0; i < outs.size(); ++i) {
      const std::int64_t begin =
          outs[i].begin * number("stride") - number("padding");
      const std::int64_t end = outs[i].size() == 0
          ? begin
          : (outs[i].end - 1) * number("stride") - number("padding") +
              number("dilation") * (kernel_[dim] - 1) + 1;
      added.wanted.push_back(overlap({begin, end}, {0, whole_[dim]}));
      if (i == ranks.own()) {
        const Range& own = added.wanted.back();
        added.before =
            own.size() == 0 ? 0 : std::max<std::int64_t>(own.begin - begin, 0);
        added.after = end - begin - own.size() - added.before;
      }
    }
    dims_.push_back(std::move(added));
  }

  LocalCall& call_;
  const Shape whole_;
  const Shape kernel_;
  const Placements input_placements_;
  std::vector<Dim> dims_;
};

void run_convolution(LocalCall& call) {
  const Decision::Output& out = call.decision().outputs[0];
  if (out.tensors.empty()) {
    call.run();
    return;
  }
  const Expected& expected = out.tensors[0];
  const at::Tensor input = call.argument("input").toTensor();
  const Halos halos(call, "input", 0, expected.shape, out.placements);
  if (halos.is_empty()) {
    call.run();
    return;
  }
  const at::Tensor with_halo = halos.gather(input);
  // Only after gather(): a rank without outputs still gives others its
  // elements.
  if (numel(expected.local) == 0) {
    call.finish(at::zeros(expected.local, input.options()));
    return;
  }
  call.argument("input") = with_halo;
  call.argument("padding") = halos.padding();
  call.run();
}

// Inputs: grad_output, input, weight. Outputs: gradients of input, weight,
// bias.
std::vector<Strategy> convolution_backward(const OpCall& call) {
  const std::size_t ndim = call.shape(0).size();
  if (ndim < 3) {
    return {};
  }
  const bool transposed = call.flag("transposed", false);
  const Letters letters = letters_of(call, ndim);
  std::vector<std::string> all{
      letters.output, letters.input, letters.weight, "o"};
  if (has_groups(call) || !may_cut(call, 1, 1)) {
    keep_whole(all, 'c');
  }
  if (has_groups(call) || !may_cut(call, 2, transposed ? 1 : 0)) {
    keep_whole(all, 'o');
  }
  auto strategies =
      by_letters(call, {all[0], all[1], all[2]}, {all[1], all[2], all[3]});
  for (Strategy& each : strategies) {
    if (each.inputs[0].is_replicated()) {
      each.outputs[2] = Replicate(); // input channels: all have its gradient
    }
  }
  if (has_groups(call) && may_cut_groups(call, 1, 2)) {
    Strategy groups = call.strategy(Shard(1), Shard(0));
    groups.inputs = {Shard(1), Shard(1), Shard(0)};
    groups.outputs[0] = Shard(1);
    strategies.push_back(std::move(groups));
  }
  for (std::size_t dim = 2; dim < ndim && !transposed; ++dim) {
    const Placement cut = Shard(static_cast<int>(dim));
    Strategy spatial = call.strategy(cut, Partial());
    spatial.inputs[1] = cut;
    spatial.outputs[0] = cut;
    strategies.push_back(std::move(spatial));
  }
  return strategies;
}

std::vector<Shape> convolution_backward_shapes(const OpCall& call) {
  return {call.shape(1), call.shape(2), {call.shape(0)[1]}};
}

Arguments localize_backward(
    const OpCall& call, const std::vector<Shape>& local_outs) {
  Arguments arguments;
  const std::int64_t groups = call.integer("groups", 1);
  if (groups != 1) {
    arguments.emplace_back(
        "groups", groups * local_outs[0][1] / call.shape(1)[1]);
  }
  if (call.has("bias_sizes")) {
    arguments.emplace_back("bias_sizes", local_outs[2]);
  }
  return arguments;
}

std::array<bool, 3> mask_of(LocalCall& call) {
  const auto list = call.argument("output_mask").toBoolList();
  return {list[0], list[1], list[2]};
}

// Parts without output have gradients of zeros.
std::array<at::Tensor, 3> gradients(
    LocalCall& call, const at::Tensor& input, const Shape& padding) {
  const at::Tensor grad = call.argument("grad_output").toTensor();
  if (grad.numel() == 0) {
    const auto& outputs = call.decision().outputs;
    return {
        at::zeros(input.sizes(), grad.options()),
        at::zeros(outputs[1].tensors[0].local, grad.options()),
        at::zeros(outputs[2].tensors[0].local, grad.options())};
  }
  const Shape bias{grad.size(1)};
  const auto [of_input, of_weight, of_bias] = at::convolution_backward(
      grad,
      input,
      call.argument("weight").toTensor(),
      at::OptionalIntArrayRef(bias),
      call.argument("stride").toIntVector(),
      padding,
      call.argument("dilation").toIntVector(),
      false,
      call.argument("output_padding").toIntVector(),
      call.argument("groups").toInt(),
      mask_of(call));
  return {of_input, of_weight, of_bias};
}

void run_convolution_backward(LocalCall& call) {
  const at::Tensor grad = call.original("grad_output").toTensor();
  const at::Tensor input = call.argument("input").toTensor();
  const Halos halos(
      call,
      "input",
      1,
      grad.sizes().vec(),
      call.decision().inputs[0].placements);
  if (halos.is_empty()) {
    call.run();
    return;
  }
  const auto mask = mask_of(call);
  auto found = gradients(call, halos.gather(input), halos.padding());
  if (mask[0]) {
    found[0] = halos.scatter(found[0]);
  }
  torch::jit::Stack results;
  for (std::size_t i = 0; i < 3; ++i) {
    results.emplace_back(mask[i] ? found[i] : at::Tensor());
  }
  call.finish(std::move(results));
}

} // namespace

void add_convolution_rules(RuleTable& table) {
  table.add(
      "convolution",
      {.strategies = convolution,
       .shapes = convolution_shape,
       .localize = localize,
       .run = run_convolution});
  table.add(
      "convolution_backward",
      {.strategies = convolution_backward,
       .shapes = convolution_backward_shapes,
       .localize = localize_backward,
       .run = run_convolution_backward});
}

} // namespace argosy::dtensor
