#pragma once

#include <c10/core/ScalarType.h>

#include <memory>

namespace at {
class Tensor;
}

namespace torch::nn {
class Module;
}

namespace argosy {

namespace dtensor {
class Tape;
}

// While it lives, the tensors that the calling thread makes take no memory:
// what happens to them is written down. shard_tensor_(), and so shard_layer()
// and parallelize(), then make just this rank's parts, and do to them what was
// written down. So a model that no rank could hold can be built:
//
//   Gpt gpt = nullptr;
//   {
//     const DeferredInit deferred;
//     gpt = Gpt(options);
//   }
//   parallelize(*gpt, mesh, config);
//
// Random values of DTensors are those of dtensor_manual_seed(), the same for
// every mesh and placement (not those of torch's generator, which would have to
// draw them all on every rank).
//
// ZeRO and DataParallel make plain tensors, which get the values that they
// would have without DeferredInit: torch's generator draws them, from the state
// in which the constructor of the model found it. ZeRO 3 makes them one after
// the other and keeps this rank's parts.
//
// Values of such tensors cannot be asked for until they are sharded, and
// torch::tensor({1, 2}), which writes values at once, throws. The calling
// thread must be a rank. Not to be nested.
class DeferredInit {
 public:
  DeferredInit();
  ~DeferredInit();
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

 private:
  std::shared_ptr<dtensor::Tape> tape_;
};

// Whether a tensor was made under DeferredInit and not sharded yet.
bool is_deferred(const at::Tensor& tensor);

// Makes a deferred tensor, for all who hold it, a plain one with the values
// that it would have without DeferredInit. Does nothing with other tensors. Not
// collective: ranks whose generators differ get different random values.
void materialize(const at::Tensor& tensor);

// All parameters and buffers of a module.
void materialize(torch::nn::Module& module);

// Changes the type of a deferred tensor, for all who hold it.
void cast_deferred(const at::Tensor& tensor, c10::ScalarType type);

} // namespace argosy
