#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "argosy/mesh/process_mesh.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace argosy {

struct SplitOptions {
  // 0: by the inputs (Linear) or the vocabulary (Embedding); 1: by the outputs.
  int axis = 0;
  // Else the output stays as it comes: cut (axis 1), or a sum in parts (0).
  bool gather_out = true;
  bool bias = true;
};

// A layer that is cut over ranks: what split() returns.
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

// Makes a "linear" of size {in, out}, or an "embedding" of size {vocabulary,
// width}, cut over the axis "mp" of the mesh (or its only one). Each rank makes
// its part of the weights only, with the values of dtensor_manual_seed().
//
//   auto layer = split({784, 512}, "linear", mesh, {.axis = 1});
//   y = layer(x);
//
// Throws InvalidArgument for other names and axes.
SplitLayer split(
    const std::array<std::int64_t, 2>& size,
    const std::string& operation,
    const ProcessMesh& mesh,
    const SplitOptions& options = {});

} // namespace argosy
