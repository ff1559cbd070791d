// Batch norm. Channels are independent of one another. Samples that are cut
// share the statistics of a channel, so that they are those of the whole batch.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include "argosy/dtensor/ops/axes.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/tensor/mesh_state.h"
#include "argosy/dtensor/tensor/tensor.h"

namespace argosy::dtensor {

namespace {

constexpr std::int64_t kChannels = 1;

Strategy by_channels(const OpCall& call, std::size_t num_wide) {
  Strategy strategy = call.strategy();
  strategy.inputs.assign(call.num_inputs(), Shard(0));
  for (std::size_t i = 0; i < num_wide; ++i) {
    strategy.inputs[i] = Shard(kChannels);
  }
  strategy.outputs = {Shard(kChannels), Shard(0), Shard(0)};
  return strategy;
}

std::vector<Strategy> batch_norm_forward(const OpCall& call) {
  std::vector<Strategy> strategies{by_channels(call, 1)};
  for (int dim = 0; dim < static_cast<int>(call.shape(0).size()); ++dim) {
    if (dim != kChannels) {
      Strategy strategy = call.strategy();
      strategy.inputs[0] = strategy.outputs[0] = Shard(dim);
      strategies.push_back(std::move(strategy));
    }
  }
  return strategies;
}

std::vector<Shape> batch_norm_forward_shapes(const OpCall& call) {
  const Shape& in = call.shape(0);
  const Shape saved{call.flag("training", false) ? in.at(kChannels) : 0};
  return {in, saved, saved};
}

// The ranks need the sums over all samples for the input's gradient, so those
// of the weights come with them; without training they are left Partial.
std::vector<Strategy> batch_norm_backward(const OpCall& call) {
  std::vector<Strategy> strategies{by_channels(call, 2)};
  const bool reduces = call.flag("train", false);
  for (int dim = 0; dim < static_cast<int>(call.shape(0).size()); ++dim) {
    if (dim != kChannels) {
      Strategy strategy =
          call.strategy(Shard(dim), reduces ? Placement() : Partial());
      strategy.inputs[1] = strategy.outputs[0] = Shard(dim);
      strategies.push_back(std::move(strategy));
    }
  }
  return strategies;
}

std::vector<Shape> batch_norm_backward_shapes(const OpCall& call) {
  const Shape channels{call.shape(1).at(kChannels)};
  return {call.shape(1), channels, channels};
}

std::vector<int> axes_of_samples(const LocalCall& call) {
  return axes_that_cut(call, "input", [](int dim) { return dim != kChannels; });
}

at::Tensor argument(LocalCall& call, std::string_view name) {
  const c10::IValue& value = call.argument(name);
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

Shape dims_of_samples(const at::Tensor& tensor) {
  Shape dims;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (dim != kChannels) {
      dims.push_back(dim);
    }
  }
  return dims;
}

struct Statistics {
  at::Tensor mean;
  at::Tensor variance;
  double count = 0; // of elements of a channel, on all ranks
};

// Mean and variance of the part; of no samples, zeros.
at::Tensor statistics_of_part(const at::Tensor& input) {
  const std::int64_t channels = input.size(kChannels);
  if (input.numel() == 0) {
    return at::zeros({2, channels}, input.options().dtype(at::kDouble));
  }
  const auto [variance, mean] =
      at::var_mean(input, dims_of_samples(input), /*unbiased=*/false);
  return at::stack({mean, variance}).to(at::kDouble);
}

double count_of(const at::Tensor& tensor) {
  const std::int64_t channels = tensor.size(kChannels);
  return channels == 0
      ? 0
      : static_cast<double>(tensor.numel()) / static_cast<double>(channels);
}

// Mean and biased variance of the whole batch, by two all-reduces of one number
// per channel. With the share s of the samples that a part has, mean = sum(s *
// mean_part) and variance = sum(s * (var_part + (mean_part - mean)^2)): what
// varies within the parts and between them. Unlike the mean of squares less the
// square of the mean, this does not cancel when the mean is large. A part
// without samples has the share 0, but its rank takes part in the reductions.
Statistics statistics_of(LocalCall& call, const std::vector<int>& axes) {
  const at::Tensor input = argument(call, "input");
  const double count = count_of(call.original("input").toTensor());
  const at::Tensor own = statistics_of_part(input);
  const double share = count == 0 ? 0 : count_of(input) / count;
  const at::Tensor mean = own[0] * share;
  reduce_over(call, axes, mean);
  const at::Tensor variance = (own[1] + (own[0] - mean).square_()).mul_(share);
  reduce_over(call, axes, variance);
  return {
      mean.to(input.scalar_type()), variance.to(input.scalar_type()), count};
}

void update(const at::Tensor& running, const at::Tensor& now, double momentum) {
  if (running.defined()) {
    running.mul_(1 - momentum).add_(now, momentum);
  }
}

// The op itself cannot take a part without elements.
at::Tensor normalized(LocalCall& call, const Statistics& by) {
  const at::Tensor input = argument(call, "input");
  if (input.numel() == 0) {
    return at::empty_like(input);
  }
  // What eval does, with these statistics.
  return std::get<0>(at::native_batch_norm(
      input,
      argument(call, "weight"),
      argument(call, "bias"),
      by.mean,
      by.variance,
      false,
      call.argument("momentum").toDouble(),
      call.argument("eps").toDouble()));
}

void run_on_cut_samples(LocalCall& call, const std::vector<int>& axes) {
  const Statistics now = statistics_of(call, axes);
  const double momentum = call.argument("momentum").toDouble();
  const double eps = call.argument("eps").toDouble();
  update(argument(call, "running_mean"), now.mean, momentum);
  update(
      argument(call, "running_var"),
      // As in LibTorch, the running variance is the unbiased one.
      now.variance * (now.count / (now.count - 1)),
      momentum);
  call.finish(torch::jit::Stack{
      normalized(call, now), now.mean, (now.variance + eps).rsqrt_()});
}

// The op writes to the running statistics, although its schema does not say so.
// When they were moved for it, what it wrote goes back.
class RunningStatistics {
 public:
  explicit RunningStatistics(LocalCall& call) : call_(call) {
    add("running_mean");
    add("running_var");
  }

  void write_back() {
    for (const Moved& each : moved_) {
      each.home.copy_(call_.mesh().reshard(
          each.local, each.global, each.placements, each.home_placements));
    }
  }

 private:
  struct Moved {
    at::Tensor local;
    at::IntArrayRef global;
    Placements placements;
    at::Tensor home;
    Placements home_placements;
  };

  void add(std::string_view name) {
    const at::Tensor local = argument(call_, name);
    if (!local.defined()) {
      return;
    }
    const at::Tensor& original = call_.original(name).toTensor();
    const Placements& placements = call_.placements(name);
    const Parts* parts = parts_of(original);
    const Placements home = parts != nullptr
        ? parts->placements
        : Placements(placements.size(), Replicate());
    if (placements != home) {
      call_.argument(name) = local.clone();
      moved_.push_back(
          {argument(call_, name),
           original.sizes(),
           placements,
           parts != nullptr ? parts->local : original,
           home});
    }
  }

  LocalCall& call_;
  std::vector<Moved> moved_;
};

// Nothing to normalize, and the op itself fails on such a part.
void run_without_elements(LocalCall& call, std::int64_t num_saved) {
  const at::Tensor input = argument(call, "input");
  const at::Tensor zeros = at::zeros(num_saved, input.options());
  call.finish(torch::jit::Stack{at::empty_like(input), zeros, zeros});
}

void run_batch_norm_forward(LocalCall& call) {
  const bool is_empty = argument(call, "input").numel() == 0;
  if (!call.argument("training").toBool()) {
    is_empty ? run_without_elements(call, 0) : call.run();
    return;
  }
  // Before the op, as it replaces arguments by copies for it to write to.
  RunningStatistics running(call);
  if (const auto axes = axes_of_samples(call); !axes.empty()) {
    run_on_cut_samples(call, axes);
  } else if (is_empty) {
    run_without_elements(call, argument(call, "input").size(kChannels));
  } else {
    call.run();
  }
  running.write_back();
}

// One number for each channel, to go with the input.
at::Tensor spread(const at::Tensor& channels, const at::Tensor& like) {
  Shape shape(static_cast<std::size_t>(like.dim()), 1);
  shape[kChannels] = channels.numel();
  return channels.view(shape);
}

// With x^ the normalized input, g the gradient of the output and means over all
// samples of a channel: grad_input = invstd * weight * (g - mean(g) - x^ *
// mean(g * x^)). The sums of g and of g * x^ are the gradients of bias and
// weight as well, so one all-reduce of two numbers per channel is enough.
void run_backward_on_cut_samples(
    LocalCall& call, const std::vector<int>& axes) {
  const at::Tensor grad = argument(call, "grad_out");
  const at::Tensor input = argument(call, "input");
  const at::Tensor weight = argument(call, "weight");
  const at::Tensor scale = argument(call, "save_invstd");
  const at::Tensor normal =
      (input - spread(argument(call, "save_mean"), input)) *
      spread(scale, input);
  const Shape dims = dims_of_samples(input);
  const at::Tensor sums =
      at::stack({grad.sum(dims), (grad * normal).sum(dims)});
  reduce_over(call, axes, sums);
  const at::Tensor means = sums / count_of(call.original("input").toTensor());
  const at::Tensor centred =
      grad - spread(means[0], input) - normal * spread(means[1], input);
  const at::Tensor slope = weight.defined() ? scale * weight : scale;
  const auto wanted = call.argument("output_mask").toBoolList();
  const auto if_wanted = [&](std::size_t i, const at::Tensor& tensor) {
    return wanted[i] ? tensor : at::Tensor();
  };
  call.finish(torch::jit::Stack{
      if_wanted(0, centred * spread(slope, input)),
      if_wanted(1, sums[1]),
      if_wanted(2, sums[0])});
}

void run_batch_norm_backward(LocalCall& call) {
  const auto axes = axes_of_samples(call);
  if (!axes.empty() && call.argument("train").toBool()) {
    run_backward_on_cut_samples(call, axes);
  } else if (const at::Tensor input = argument(call, "input");
             input.numel() == 0) {
    run_without_elements(call, input.size(kChannels));
  } else {
    call.run();
  }
}

} // namespace

void add_batch_norm_rules(RuleTable& table) {
  table.add(
      "native_batch_norm",
      {.strategies = batch_norm_forward,
       .shapes = batch_norm_forward_shapes,
       .run = run_batch_norm_forward});
  table.add(
      "native_batch_norm_backward",
      {.strategies = batch_norm_backward,
       .shapes = batch_norm_backward_shapes,
       .run = run_batch_norm_backward});
}

} // namespace argosy::dtensor
