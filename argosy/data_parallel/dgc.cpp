// Deep gradient compression (Lin et al. 2018). For each gradient g, u = m u + g
// accumulates momentum, and v += u accumulates what was not sent. The k largest
// entries of v are sent, and u and v are reset to 0 there: v because the
// entries are sent, u so that old momentum does not push them again.
//
// For each gradient a rank sends k indices and k values, and receives as many
// from every rank. k depends on the step and the size alone, so that all ranks
// gather the same number.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <map>

#include "argosy/common/error.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/hook_memory.h"
#include "argosy/optim/local.h"

namespace argosy {

namespace {

using data_parallel::GradBucket;

struct Accumulators {
  int step = 0;
  at::Tensor u;
  at::Tensor v;
  double scale = 0; // u and v are of this multiple of the loss; 0: as now
};

at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.clone() : tensor;
}

class Dgc final : public data_parallel::BucketHook {
 public:
  explicit Dgc(DgcOptions options) : options_(std::move(options)) {
    ARGOSY_CHECK(
        !options_.sparsity.empty() && options_.rampup_step >= 1,
        "[data_parallel.dgc] expected a list of sparsities and rampup_step >= "
        "1");
    for (const double part : options_.sparsity) {
      ARGOSY_CHECK(
          part >= 0 && part < 1,
          "[data_parallel.dgc] a sparsity is {}, expected in [0, 1)",
          part);
    }
  }

  // Sends one all_gather of indices and one of values for each compressed
  // gradient, and an all_reduce for each other one.
  void start(const GradBucket& bucket, const GroupPtr& group) override {
    Sent& sent = sent_[bucket.index];
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      const at::Tensor& gradient = bucket.gradients[i];
      Accumulators& kept = prepared(bucket.parameters[i]);
      if (is_compressed(gradient, kept, group)) {
        sent.sparse.push_back(exchange(i, bucket, kept, group));
      } else {
        sent.dense.push_back(
            {i, all_reduce(gradient, ReduceOp::AVG, group, false)});
      }
    }
  }

  void finish(const GradBucket& bucket, const GroupPtr& group) override {
    const Sent& sent = sent_.at(bucket.index);
    for (const Dense& dense : sent.dense) {
      dense.work->wait();
      add_decay(bucket.gradients[dense.place], bucket.values[dense.place]);
      add_momentum(
          bucket.gradients[dense.place], kept_[bucket.parameters[dense.place]]);
    }
    for (const Sparse& sparse : sent.sparse) {
      sparse.indices_work->wait();
      sparse.values_work->wait();
      // Ranks may have sent the same index: index_add_ sums those values.
      bucket.gradients[sparse.place].zero_().view({-1}).index_add_(
          0, sparse.indices, sparse.values / group->nranks());
    }
    sent_.erase(bucket.index);
    for (const std::size_t parameter : bucket.parameters) {
      ++kept_[parameter].step;
    }
  }

  // The gradients that were sent are lost; u and v keep those that were not.
  void abandon(const GradBucket& bucket, const GroupPtr& /*group*/) override {
    const Sent sent = std::move(sent_[bucket.index]);
    sent_.erase(bucket.index);
    for (const Dense& dense : sent.dense) {
      dense.work->wait();
    }
    for (const Sparse& sparse : sent.sparse) {
      sparse.indices_work->wait();
      sparse.values_work->wait();
    }
  }

  void set_loss_scale(double scale) override {
    scale_ = scale;
    may_be_skipped_ = true;
  }

  void settle(bool taken) override {
    for (auto& [parameter, kept] : before_) {
      if (!taken) {
        kept_[parameter] = std::move(kept);
      }
    }
    before_.clear();
  }

  data_parallel::HookMemory memory() const override {
    data_parallel::HookMemory memory;
    for (const auto& [parameter, kept] : kept_) {
      const auto put = [&](const char* kind, const at::Tensor& tensor) {
        if (tensor.defined()) {
          memory[str(parameter, '.', kind)] = tensor;
        }
      };
      put("u", kept.u);
      put("v", kept.v);
      put("step", at::scalar_tensor(kept.step, at::kLong));
      put("scale", at::scalar_tensor(kept.scale, at::kDouble));
    }
    return memory;
  }

  void set_memory(const data_parallel::HookMemory& memory) override {
    kept_.clear();
    data_parallel::for_each_kept(
        memory,
        [&](std::size_t parameter,
            const std::string& kind,
            const at::Tensor& tensor) {
          Accumulators& kept = kept_[parameter];
          if (kind == "step") {
            kept.step = tensor.item<int>();
          } else if (kind == "scale") {
            kept.scale = tensor.item<double>();
          } else {
            (kind == "u" ? kept.u : kept.v) = tensor;
          }
        });
  }

 private:
  struct Dense {
    std::size_t place; // in the bucket
    WorkPtr work;
  };
  struct Sparse {
    std::size_t place;
    at::Tensor indices; // of all ranks
    at::Tensor values;
    at::Tensor own_indices; // alive until the work has ended
    at::Tensor own_values;
    WorkPtr indices_work;
    WorkPtr values_work;
  };
  struct Sent {
    std::vector<Dense> dense;
    std::vector<Sparse> sparse;
  };

  // What is kept for a parameter, in the scale of its next gradient.
  Accumulators& prepared(std::size_t parameter) {
    Accumulators& kept = kept_[parameter];
    if (may_be_skipped_) {
      before_[parameter] = kept;
      kept.u = copy_of(kept.u);
      kept.v = copy_of(kept.v);
    }
    if (kept.scale != 0 && kept.scale != scale_) {
      for (const at::Tensor& each : {kept.u, kept.v}) {
        if (each.defined()) {
          each.mul_(scale_ / kept.scale);
        }
      }
    }
    kept.scale = scale_;
    return kept;
  }

  // Alone, a rank needs the momentum and sends nothing.
  bool is_compressed(
      const at::Tensor& gradient,
      const Accumulators& kept,
      const GroupPtr& group) const {
    return group->nranks() > 1 && gradient.numel() >= options_.min_count &&
        gradient.scalar_type() == at::kFloat &&
        kept.step >= options_.rampup_begin_step;
  }

  // Each sparsity of the list is used for an equal number of steps; the last
  // one stays.
  double sparsity_at(int step) const {
    const int after = step - options_.rampup_begin_step;
    const auto length = static_cast<int>(options_.sparsity.size());
    const int place =
        std::min(after * length / options_.rampup_step, length - 1);
    return options_.sparsity[static_cast<std::size_t>(place)];
  }

  at::Tensor clipped(const at::Tensor& gradient, int num_ranks) const {
    if (options_.clip_norm <= 0) {
      return gradient;
    }
    // Each rank clips before the sum. The norm of a sum of n independent
    // gradients grows with sqrt(n), so each gets 1/sqrt(n) of the limit.
    const double limit = scale_ * options_.clip_norm / std::sqrt(num_ranks);
    const double norm = gradient.norm().item<double>();
    return norm > limit ? gradient * (limit / norm) : gradient;
  }

  // To what goes into the momentum, as SGD does.
  void add_decay(const at::Tensor& sum, const at::Tensor& parameter) const {
    const double decay =
        options_.weight_decay ? options_.weight_decay(parameter) : 0;
    if (decay != 0) {
      const at::NoGradGuard no_grad;
      sum.add_(optim::local_of(parameter), scale_ * decay);
    }
  }

  // Plain momentum, for gradients that are not compressed. It works on the
  // average, so that u is the same on all ranks.
  void add_momentum(const at::Tensor& gradient, Accumulators& kept) const {
    if (!kept.u.defined()) {
      kept.u = at::zeros_like(gradient);
    }
    kept.u.mul_(options_.momentum).add_(gradient);
    gradient.copy_(kept.u);
  }

  Sparse exchange(
      std::size_t place,
      const GradBucket& bucket,
      Accumulators& kept,
      const GroupPtr& group) const {
    const at::Tensor& gradient = bucket.gradients[place];
    if (!kept.u.defined()) {
      kept.u = at::zeros_like(gradient);
    }
    if (!kept.v.defined()) {
      kept.v = at::zeros_like(gradient);
    }
    kept.u.mul_(options_.momentum).add_(clipped(gradient, group->nranks()));
    add_decay(kept.u, bucket.values[place]);
    kept.v.add_(kept.u);
    const at::Tensor v = kept.v.view({-1});
    const auto count = std::max<std::int64_t>(
        1,
        static_cast<std::int64_t>(std::llround(
            static_cast<double>(v.numel()) * (1 - sparsity_at(kept.step)))));
    Sparse sent;
    sent.place = place;
    sent.own_indices = std::get<1>(v.abs().topk(count));
    sent.own_values = v.index_select(0, sent.own_indices);
    v.index_fill_(0, sent.own_indices, 0);
    kept.u.view({-1}).index_fill_(0, sent.own_indices, 0);
    const std::int64_t all = count * group->nranks();
    sent.indices = at::empty({all}, sent.own_indices.options());
    sent.values = at::empty({all}, sent.own_values.options());
    sent.indices_work =
        all_gather(sent.indices, sent.own_indices, group, false);
    sent.values_work = all_gather(sent.values, sent.own_values, group, false);
    return sent;
  }

  const DgcOptions options_;
  double scale_ = 1; // of the loss
  bool may_be_skipped_ = false;
  std::map<std::size_t, Accumulators> kept_;   // by parameter
  std::map<std::size_t, Accumulators> before_; // until settle()
  std::map<std::size_t, Sent> sent_;           // by bucket, of this step
};

} // namespace

std::shared_ptr<data_parallel::BucketHook> deep_gradient_compression(
    DgcOptions options) {
  return std::make_shared<Dgc>(std::move(options));
}

} // namespace argosy
