#pragma once

#include <memory>
#include <string>
#include <vector>

#include "argosy/recomputation/options.h"

namespace torch::nn {
class Module;
}

namespace argosy {

// Runs modules of a model again in backward instead of keeping what their ops
// save, wherever the model calls them: as a member, as an entry of a ModuleList
// or of a Sequential, with any arguments and results. The model is not changed.
//
//   const RecomputedModules blocks(*model, {"blocks\\.[0-9]+"});
//   at::Tensor y;
//   {
//     const auto scope = blocks.scope();
//     y = model->forward(x);
//   }
//   y.sum().backward();
//
// forward() of a LibTorch module is not virtual, so nobody sees the call of a
// module, but the ops that it makes are seen. Ops are run again from the first
// that uses a parameter of a named module up to the first that uses a parameter
// of another one, or the end of the scope. What runs without grad mode, in a
// torch::autograd::Function or in a collective is not run again; its results
// are kept, as is what a Function saves itself.
//
// Gradients are the same bit for bit. Buffers, such as the statistics of a
// batch norm, are written once.
class RecomputedModules {
 public:
  // Takes the modules whose whole name in named_modules() matches one of the
  // regular expressions, with all modules inside of them. Throws
  // InvalidArgument when an expression matches no module with parameters, or is
  // none.
  // `model` must outlive this object, and keep its parameters.
  RecomputedModules(
      const torch::nn::Module& model,
      const std::vector<std::string>& patterns,
      RecomputeOptions options = {});

  // Whether the expression matches a module with parameters, as the constructor
  // asks for.
  static bool matches(
      const torch::nn::Module& model, const std::string& pattern);

  // Of the modules; what is inside of another one is left out.
  const std::vector<std::string>& names() const;

  // While it lives, ops of the calling thread count as the model's. Without
  // grad mode it does nothing. Ops throw InvalidArgument when a named module
  // calls recompute() itself.
  class Scope {
   public:
    explicit Scope(const RecomputedModules& modules);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    class Impl;
    std::unique_ptr<Impl> impl_; // null: does nothing
  };
  [[nodiscard]] Scope scope() const { return Scope(*this); }

 private:
  struct Plan;
  std::shared_ptr<const Plan> plan_;
};

} // namespace argosy
