#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/data_parallel/bucket_plan.h"
#include "argosy/training/parallel_model.h"

namespace argosy {

namespace data_parallel {
class BucketHook;
}

struct DataParallelOptions {
  // Sizes of the buckets in which gradients are reduced, in MB. The last bucket
  // is small, because no computation is left to hide its reduction behind.
  double comm_buffer_size = 25;
  double last_comm_buffer_size = 1;
  // How gradients are assigned to buckets.
  data_parallel::Fusion::Mode fusion = data_parallel::Fusion::Mode::Size;
  std::vector<std::size_t> fusion_starts; // for Mode::Index

  // Set it if a step may leave parameters without a gradient. They count as
  // zeros. A parameter that no rank has used keeps the gradient that it had.
  bool find_unused_parameters = false;
  // As find_unused_parameters, for models in which every step uses the same
  // parameters on this rank: the ranks exchange which ones only in the first
  // step. A step that uses others throws InvalidArgument.
  bool static_graph = false;
  // Broadcast the buffers (running statistics) of the first rank at every
  // forward in grad mode; with join(), of the first that still has inputs.
  bool broadcast_buffers = false;

  // Accumulate and reduce gradients of 16-bit parameters in float32. grad() is
  // then a float32 tensor, which optimizers of argosy::optim accept.
  bool main_grad = false;

  // Keep the memory of large tensors for the next step; see
  // keep_tensor_memory().
  bool keep_memory = true;

  GroupPtr group; // null: all ranks
  // The ranks of `group` that hold the same experts as this rank (parameters
  // with ParameterMarks::is_expert). Gradients of experts are summed over this
  // group and divided by the size of `group`, so that all gradients are those
  // of the mean of the ranks' losses. Null: no other rank holds them.
  GroupPtr expert_group;
  // How a bucket is averaged. Null: the plain average, which experts always
  // get.
  std::shared_ptr<data_parallel::BucketHook> hook;
  // Names of the parameters that have sparse gradients. Sparse embeddings of
  // LibTorch are found without it.
  std::vector<std::string> sparse_parameters;
};

namespace data_parallel {

// The part of DataParallel that does not depend on the type of the module.
class DataParallelCore final : public training::ModelCore {
 public:
  DataParallelCore(torch::nn::Module& module, DataParallelOptions options);
  ~DataParallelCore() override;
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;

  void before_forward() override;
  void after_forward(const Tensors& outputs) override;

  void set_sync(bool sync) override;
  bool sync() const override;
  void zero_grad() override;
  void reduce_gradients() override;
  Memory memory() const override;
  void set_memory(const Memory& memory) override;
  const BucketPlan& plan() const;
  const GroupPtr& group() const;

  void begin_join();
  void end_join();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For ranks that have different numbers of inputs. While it lives, gradients
// are averaged over the ranks that still have inputs. A rank that has run out
// calls finish(), which blocks: it takes part in the reductions of the other
// ranks until all have finished. Then all ranks get the parameters of a rank
// that finished last.
class Join {
 public:
  explicit Join(std::shared_ptr<DataParallelCore> core);
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  void finish();

 private:
  const std::shared_ptr<DataParallelCore> core_;
  bool finished_ = false;
};

} // namespace data_parallel

// Wraps a module so that backward() averages its gradients over the ranks.
// Takes any LibTorch module: a holder, a shared_ptr to a class of yours, an
// AnyModule.
//
//   Net net;
//   argosy::DataParallel model(net);
//   auto loss = criterion(model(inputs), targets);
//   loss.backward();  // averaged
//
// All ranks construct it alike, which blocks; they then have the first rank's
// parameters and buffers. All ranks call forward and backward alike. Throws
// InvalidArgument, on all ranks, if their parameters differ in name, shape or
// type.
//
// If backward throws on all ranks, call zero_grad() and train on. If it throws
// on some ranks only, all ranks get an error in this step or the next.
template <typename Module>
class DataParallel
    : public training::ParallelModel<Module, data_parallel::DataParallelCore> {
 public:
  explicit DataParallel(Module module, DataParallelOptions options = {})
      : DataParallel::ParallelModel(
            std::move(module), [&](torch::nn::Module& inner) {
              return std::make_shared<data_parallel::DataParallelCore>(
                  inner, std::move(options));
            }) {}

  [[nodiscard]] data_parallel::Join join() {
    return data_parallel::Join(this->core());
  }

  // Which gradients are reduced together. Printable. Changes once, after the
  // first backward.
  const data_parallel::BucketPlan& plan() const { return this->core()->plan(); }
};

} // namespace argosy
