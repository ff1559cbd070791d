#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/parallel/data/bucket_plan.h"

namespace torch::nn {
class Module;
}

namespace argosy {

namespace parallel {
class BucketHook;
}

struct DataParallelOptions {
  // Gradients are reduced in buckets of so many MB; the last one is small,
  // since nothing is left of backward to hide it behind.
  double comm_buffer_size = 25;
  double last_comm_buffer_size = 1;
  // How gradients are fused, where sizes do not suffice: by index, Auto, None.
  parallel::Fusion::Mode fusion = parallel::Fusion::Mode::Size;
  std::vector<std::size_t> fusion_starts; // for Mode::Index

  // Set when a step may leave parameters without a gradient.
  bool find_unused_parameters = false;
  // Every step uses the same parameters on this rank: the unused ones are found
  // in the first step, and later steps send nothing for it. A step that uses
  // others throws InvalidArgument.
  bool static_graph = false;
  // Buffers (running statistics) are those of the first rank at every forward.
  bool broadcast_buffers = false;

  // Memory of large tensors is kept for the next step; see
  // keep_tensor_memory().
  bool keep_memory = true;

  GroupPtr group;                             // null: all ranks
  std::shared_ptr<parallel::BucketHook> hook; // null: the plain average
  // Names of parameters with sparse gradients. Embeddings tell by themselves.
  std::vector<std::string> sparse_parameters;
};

namespace parallel {

// What DataParallel does, without the type of the module.
class DataParallelCore {
 public:
  DataParallelCore(torch::nn::Module& module, DataParallelOptions options);
  ~DataParallelCore();
  DataParallelCore(const DataParallelCore&) = delete;
  DataParallelCore& operator=(const DataParallelCore&) = delete;

  void before_forward();
  void after_forward(const Tensors& outputs);

  void set_sync(bool sync);
  bool sync() const;
  void zero_grad();
  const BucketPlan& plan() const;
  const GroupPtr& group() const;

  void begin_join();
  void end_join();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// While it lives, gradients stay local and add up.
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<DataParallelCore> core);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  const std::shared_ptr<DataParallelCore> core_;
  const bool before_;
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

// The module behind a holder, a pointer or an AnyModule.
template <typename Module>
torch::nn::Module& as_module(Module& module) {
  if constexpr (requires { *module.ptr(); }) {
    return *module.ptr();
  } else {
    return *module;
  }
}

template <typename Module, typename... Args>
decltype(auto) call_forward(Module& module, Args&&... args) {
  if constexpr (requires { module->forward(std::forward<Args>(args)...); }) {
    return module->forward(std::forward<Args>(args)...);
  } else {
    return module.forward(std::forward<Args>(args)...);
  }
}

// The tensors in what a forward returns: a tensor, a list, a pair, a tuple, or
// these nested.
template <typename T>
void collect_tensors(const T& value, Tensors& tensors) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    tensors.push_back(value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply(
        [&](const auto&... parts) { (collect_tensors(parts, tensors), ...); },
        value);
  } else if constexpr (requires {
                         value.begin();
                         value.end();
                       }) {
    for (const auto& part : value) {
      collect_tensors(part, tensors);
    }
  }
}

} // namespace parallel

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
class DataParallel {
 public:
  explicit DataParallel(Module module, DataParallelOptions options = {})
      : module_(std::move(module)),
        core_(std::make_shared<parallel::DataParallelCore>(
            parallel::as_module(module_), std::move(options))) {}

  template <typename... Args>
  decltype(auto) forward(Args&&... args) {
    core_->before_forward();
    auto result = parallel::call_forward(module_, std::forward<Args>(args)...);
    Tensors outputs;
    parallel::collect_tensors(result, outputs);
    core_->after_forward(outputs);
    return result;
  }

  template <typename... Args>
  decltype(auto) operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  Module& module() { return module_; }
  auto operator->() { return &parallel::as_module(module_); }

  // Gradients start anew; cheaper than zeroing them.
  void zero_grad() { core_->zero_grad(); }

  [[nodiscard]] parallel::NoSync no_sync() { return parallel::NoSync(core_); }
  [[nodiscard]] parallel::Join join() { return parallel::Join(core_); }

  // Which gradients are reduced together, printable.
  const parallel::BucketPlan& plan() const { return core_->plan(); }

  // For those who steer several wrappers.
  const std::shared_ptr<parallel::DataParallelCore>& core() { return core_; }

 private:
  Module module_;
  std::shared_ptr<parallel::DataParallelCore> core_;
};

} // namespace argosy
