// PowerSGD (Vogels et al. 2019). A gradient matrix M is sent as P Q^T. P and Q
// come from one step of power iteration that starts from the last step's Q. The
// error M - P Q^T is added to the next M.

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <map>
#include <optional>

#include "argosy/comm/coalesce.h"
#include "argosy/common/error.h"
#include "argosy/data_parallel/compression.h"
#include "argosy/data_parallel/hook_memory.h"

namespace argosy {

namespace {

using data_parallel::GradBucket;

// A matrix with what is kept for it between steps.
struct Matrix {
  at::Tensor error;
  at::Tensor q;
  double scale = 0; // `error` is of this multiple of the loss; 0: as now
  at::Tensor p;     // of the current step
  at::Tensor value; // of the current step, with the error added
};

at::Tensor as_matrix(const at::Tensor& gradient) {
  return gradient.reshape({gradient.size(0), -1});
}

// A matrix of full rank that is the same on all ranks: a low-discrepancy
// sequence, so that no generator has to be in step.
at::Tensor first_q(
    std::int64_t rows, std::int64_t rank, const at::Tensor& like) {
  const auto places =
      at::arange(rows * rank, like.options()).reshape({rows, rank});
  return (places * 0.7548776662 + 0.5698402909).frac_() - 0.5;
}

// Row-major, as what comes from a checkpoint, so that products round alike. A
// column alone counts as contiguous whatever its strides; clone() makes them
// anew.
at::Tensor orthogonal(const at::Tensor& matrix) {
  return std::get<0>(at::linalg_qr(matrix)).clone(at::MemoryFormat::Contiguous);
}

class PowerSgd final : public data_parallel::BucketHook {
 public:
  explicit PowerSgd(PowerSgdOptions options) : options_(options) {
    ARGOSY_CHECK(
        options_.rank >= 1,
        "[data_parallel.power_sgd] rank is {}, expected >= 1",
        options_.rank);
  }

  void start(const GradBucket& bucket, const GroupPtr& group) override {
    std::vector<WorkPtr>& works = works_[bucket.index];
    keep_for_settle(bucket);
    if (is_plain(bucket, group)) {
      works = {all_reduce(bucket.flat, ReduceOp::AVG, group, false)};
      return;
    }
    // Only P overlaps with backward: Q needs the averaged P, so finish()
    // computes and sends it.
    Tensors sent;
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      const at::Tensor& gradient = bucket.gradients[i];
      sent.push_back(
          is_compressed(gradient)
              ? multiply(matrices_[bucket.parameters[i]], gradient)
              : gradient);
    }
    works = all_reduce_coalesced(sent, ReduceOp::AVG, group, false);
  }

  void finish(const GradBucket& bucket, const GroupPtr& group) override {
    wait_for(bucket);
    if (!is_plain(bucket, group)) {
      rebuild(bucket, group);
    }
    for (const std::size_t parameter : bucket.parameters) {
      ++steps_[parameter];
    }
  }

  // Errors and Q change in finish() only, so nothing has to be undone.
  void abandon(const GradBucket& bucket, const GroupPtr& /*group*/) override {
    wait_for(bucket);
  }

  void set_loss_scale(double scale) override {
    scale_ = scale;
    may_be_skipped_ = true;
  }

  void settle(bool taken) override {
    for (auto& [parameter, kept] : before_) {
      if (!taken) {
        steps_[parameter] = kept.step;
        matrices_.erase(parameter);
        if (kept.matrix) {
          matrices_.emplace(parameter, std::move(*kept.matrix));
        }
      }
    }
    before_.clear();
  }

  data_parallel::HookMemory memory() const override {
    data_parallel::HookMemory memory;
    for (const auto& [parameter, matrix] : matrices_) {
      memory[str(parameter, ".error")] = matrix.error;
      memory[str(parameter, ".q")] = matrix.q;
      memory[str(parameter, ".scale")] =
          at::scalar_tensor(matrix.scale, at::kDouble);
    }
    for (const auto& [parameter, step] : steps_) {
      memory[str(parameter, ".step")] = at::scalar_tensor(step, at::kLong);
    }
    return memory;
  }

  void set_memory(const data_parallel::HookMemory& memory) override {
    matrices_.clear();
    steps_.clear();
    data_parallel::for_each_kept(
        memory,
        [&](std::size_t parameter,
            const std::string& kind,
            const at::Tensor& tensor) {
          if (kind == "step") {
            steps_[parameter] = tensor.item<int>();
          } else if (kind == "scale") {
            matrices_[parameter].scale = tensor.item<double>();
          } else {
            Matrix& matrix = matrices_[parameter];
            (kind == "q" ? matrix.q : matrix.error) = tensor;
          }
        });
  }

 private:
  void wait_for(const GradBucket& bucket) {
    for (const WorkPtr& work : works_[bucket.index]) {
      work->wait();
    }
    works_.erase(bucket.index);
  }

  // Later steps replace the tensors of a matrix and write to none.
  void keep_for_settle(const GradBucket& bucket) {
    if (!may_be_skipped_) {
      return;
    }
    for (const std::size_t parameter : bucket.parameters) {
      Kept& kept = before_[parameter] = Kept{.step = steps_[parameter]};
      const auto found = matrices_.find(parameter);
      if (found != matrices_.end()) {
        kept.matrix = found->second;
      }
    }
  }

  bool is_plain(const GradBucket& bucket, const GroupPtr& group) {
    return group->nranks() == 1 ||
        steps_[bucket.parameters.front()] < options_.start_step;
  }

  bool is_compressed(const at::Tensor& gradient) const {
    if (gradient.dim() < 2) {
      return false;
    }
    const std::int64_t rows = gradient.size(0);
    const std::int64_t columns =
        gradient.numel() / std::max<std::int64_t>(rows, 1);
    // P has rows x rank numbers and Q has columns x rank.
    return static_cast<double>((rows + columns) * options_.rank) *
        options_.min_compression <=
        static_cast<double>(gradient.numel());
  }

  // P = M Q
  at::Tensor multiply(Matrix& matrix, const at::Tensor& gradient) const {
    const at::Tensor m = as_matrix(gradient);
    if (!matrix.q.defined()) {
      matrix.error = at::zeros_like(m);
      matrix.q = orthogonal(first_q(m.size(1), options_.rank, m));
    }
    matrix.value =
        at::add(m, matrix.error, matrix.scale == 0 ? 1 : scale_ / matrix.scale);
    matrix.scale = scale_;
    matrix.p = matrix.value.mm(matrix.q);
    return matrix.p;
  }

  // Q = M^T P, and M becomes P Q^T. Each rank computes the error with its own
  // Q, before the average, because the error corrects its own gradient.
  void rebuild(const GradBucket& bucket, const GroupPtr& group) {
    Tensors qs;
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      if (is_compressed(bucket.gradients[i])) {
        Matrix& matrix = matrices_.at(bucket.parameters[i]);
        // All ranks have the same averaged P, hence the same basis; otherwise
        // the average of the Qs would mean nothing.
        matrix.p = orthogonal(matrix.p);
        matrix.q = matrix.value.t().mm(matrix.p);
        matrix.error = matrix.value - matrix.p.mm(matrix.q.t());
        qs.push_back(matrix.q);
      }
    }
    all_reduce_coalesced(qs, ReduceOp::AVG, group);
    for (std::size_t i = 0; i < bucket.gradients.size(); ++i) {
      const at::Tensor& gradient = bucket.gradients[i];
      if (is_compressed(gradient)) {
        Matrix& matrix = matrices_.at(bucket.parameters[i]);
        gradient.copy_(matrix.p.mm(matrix.q.t()).reshape(gradient.sizes()));
        // The start of the next step's power iteration.
        matrix.q = orthogonal(matrix.q);
      }
    }
  }

  struct Kept {
    int step = 0;
    std::optional<Matrix> matrix; // none: it had none
  };

  const PowerSgdOptions options_;
  double scale_ = 1; // of the loss
  bool may_be_skipped_ = false;
  std::map<std::size_t, Kept> before_;                // until settle()
  std::map<std::size_t, std::vector<WorkPtr>> works_; // by bucket
  std::map<std::size_t, Matrix> matrices_;            // by parameter
  std::map<std::size_t, int> steps_;                  // by parameter
};

} // namespace

std::shared_ptr<data_parallel::BucketHook> power_sgd(PowerSgdOptions options) {
  return std::make_shared<PowerSgd>(options);
}

} // namespace argosy
