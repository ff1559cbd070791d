#pragma once

#include <memory>

namespace at {
class Tensor;
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
// Random values are those of dtensor_manual_seed(), the same for every mesh and
// placement (not those of torch's generator, which would have to draw them all
// on every rank). Values of such tensors cannot be asked for until they are
// sharded, and torch::tensor({1, 2}), which writes values at once, throws. The
// calling thread must be a rank. Not to be nested.
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

} // namespace argosy
