#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "argosy/mesh/process_mesh.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace argosy {

struct SplitOptions {
  // 0: shard the inputs (Linear) or the vocabulary (Embedding); 1: the outputs.
  int axis = 0;
  // If false, the output stays sharded (axis 1) or a partial sum (axis 0).
  bool gather_out = true;
  bool bias = true;
};

// The layer that split() returns, sharded over ranks.
class SplitLayer {
 public:
  SplitLayer(std::shared_ptr<torch::nn::Module> module, bool is_linear);

  at::Tensor operator()(const at::Tensor& x) const;
  // For register_module() and optimizers.
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  const bool is_linear_;
};

// Creates a "linear" layer of size {in, out}, or an "embedding" of size
// {vocabulary, width}, sharded over the axis "mp" of the mesh (or its only
// axis). Each rank allocates its shard only and fills it from
// dtensor_manual_seed(). All ranks of the mesh call it alike.
//
//   auto layer = split({784, 512}, "linear", mesh, {.axis = 1});
//   y = layer(x);
//
// Throws InvalidArgument for other operations and axes.
SplitLayer split(
    const std::array<std::int64_t, 2>& size,
    const std::string& operation,
    const ProcessMesh& mesh,
    const SplitOptions& options = {});

// The same on the current mesh (set_mesh()).
SplitLayer split(
    const std::array<std::int64_t, 2>& size,
    const std::string& operation,
    const SplitOptions& options = {});

} // namespace argosy
