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
  // Gradients are reduced in buckets of so many MB; the last one is small,
  // since nothing is left of backward to hide it behind.
  double comm_buffer_size = 25;
  double last_comm_buffer_size = 1;
  // How gradients are fused, where sizes do not suffice: by index, Auto, None.
  data_parallel::Fusion::Mode fusion = data_parallel::Fusion::Mode::Size;
  std::vector<std::size_t> fusion_starts; // for Mode::Index

  // Set when a step may leave parameters without a gradient.
  bool find_unused_parameters = false;
  // Every step uses the same parameters on this rank: the unused ones are found
  // in the first step, and later steps send nothing for it. A step that uses
  // others throws InvalidArgument.
  bool static_graph = false;
  // Buffers (running statistics) are those of the first rank at every forward.
  bool broadcast_buffers = false;

  // Gradients of 16-bit parameters add up and are reduced in float32: grad() is
  // a float32 tensor then, which optimizers of argosy::optim take.
  bool main_grad = false;

  // Memory of large tensors is kept for the next step; see
  // keep_tensor_memory().
  bool keep_memory = true;

  GroupPtr group; // null: all ranks
  // Of experts (ParameterMarks::is_expert), ranks of `group` have different
  // ones: those in this group have the same, whose gradients are added up.
  // Null: nobody else has them. They are divided by the size of `group` too, so
  // that all gradients are those of the mean of the ranks' losses.
  GroupPtr expert_group;
  // Null: the plain average, which experts always have.
  std::shared_ptr<data_parallel::BucketHook> hook;
  // Names of parameters with sparse gradients. Embeddings tell by themselves.
  std::vector<std::string> sparse_parameters;
};

namespace data_parallel {

// What DataParallel does, without the type of the module.
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
  const BucketPlan& plan() const;
  const GroupPtr& group() const;

  void begin_join();
  void end_join();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For inputs that end at different times: while it lives, gradients are
// averaged over the ranks that still have some. A rank that has run out calls
// finish(), which takes part in what the others do until all have finished, and
// then gives everybody the parameters of a rank that finished last.
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

// A module whose gradients are averaged over the ranks during backward(). Takes
// any LibTorch module: a holder, a shared_ptr to a class of yours, an
// AnyModule.
//
//   Net net;
//   argosy::DataParallel model(net);
//   auto loss = criterion(model(inputs), targets);
//   loss.backward();  // averaged
//
// All ranks construct it alike, and then have the first rank's parameters and
// buffers. Throws InvalidArgument, on all ranks, when their parameters differ
// in name, shape or type.
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

  // Which gradients are reduced together, printable.
  const data_parallel::BucketPlan& plan() const { return this->core()->plan(); }
};

} // namespace argosy
