#include "argosy/recomputation/sequential.h"

#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <functional>

#include "argosy/common/error.h"
#include "argosy/common/pattern.h"
#include "argosy/recomputation/recompute.h"

namespace argosy {

namespace {

using Modules = std::vector<torch::nn::AnyModule>;
using Names = std::vector<std::string>;

// Replaces a module where a Sequential calls it. The Sequential's list of
// children, which determines names, keeps the module itself.
class Recomputed : public torch::nn::Module {
 public:
  Recomputed(torch::nn::AnyModule inner, RecomputeOptions options)
      : inner_(std::move(inner)), options_(std::move(options)) {}

  at::Tensor forward(const at::Tensor& x) {
    return recompute(
        options_,
        [inner = inner_](const at::Tensor& input) mutable {
          return inner.forward<at::Tensor>(input);
        },
        x);
  }

 private:
  torch::nn::AnyModule inner_;
  const RecomputeOptions options_;
};

at::Tensor run(Modules modules, at::Tensor x) {
  for (torch::nn::AnyModule& module : modules) {
    x = module.forward<at::Tensor>(x);
  }
  return x;
}

using Wish = std::function<bool(const std::string& name, std::size_t index)>;

std::string joined(const std::string& parent, const std::string& child) {
  return parent.empty() ? child : parent + "." + child;
}

Names wrap(
    const std::string& name,
    torch::nn::SequentialImpl& sequential,
    const Wish& wish,
    const RecomputeOptions& options) {
  Names wrapped;
  const auto children = sequential.named_children();
  std::size_t index = 0;
  for (torch::nn::AnyModule& module : sequential) {
    const std::string child = joined(name, children[index].key());
    if (wish(child, index++)) {
      module = torch::nn::AnyModule(Recomputed(module, options));
      wrapped.push_back(child);
    }
  }
  return wrapped;
}

Names wrap_all(
    torch::nn::Module& model,
    const Wish& wish,
    const RecomputeOptions& options) {
  Names wrapped;
  const auto wrap_in = [&](const std::string& name, torch::nn::Module& module) {
    if (auto* sequential = module.as<torch::nn::SequentialImpl>()) {
      const Names names = wrap(name, *sequential, wish, options);
      wrapped.insert(wrapped.end(), names.begin(), names.end());
    }
  };
  wrap_in("", model);
  for (const auto& each : model.named_modules("", /*include_self=*/false)) {
    wrap_in(each.key(), *each.value());
  }
  return wrapped;
}

} // namespace

at::Tensor recompute_sequential(
    int segments,
    torch::nn::SequentialImpl& modules,
    const at::Tensor& input,
    const RecomputeOptions& options) {
  const auto count = static_cast<int>(modules.size());
  ARGOSY_CHECK(
      segments >= 1 && segments <= count,
      "[recomputation.recompute_sequential] {} segments of {} modules, "
      "expected 1 to {}",
      segments,
      count,
      count);
  at::Tensor x = input;
  auto begin = modules.begin();
  for (int i = 0; i < segments; ++i) {
    const auto end = begin + count / segments + (i < count % segments ? 1 : 0);
    Modules segment(begin, end);
    // Backward begins with the last segment: its activations would be
    // recomputed at once, so they are kept.
    x = i + 1 < segments ? recompute(options, &run, std::move(segment), x)
                         : run(std::move(segment), x);
    begin = end;
  }
  return x;
}

Names recompute_modules(
    torch::nn::Module& model,
    const std::string& pattern,
    const RecomputeOptions& options) {
  const Pattern wanted(pattern, "[recomputation.modules]");
  const auto matches = [&](const std::string& name) {
    return wanted.matches(name);
  };
  Names wrapped = wrap_all(
      model,
      [&](const std::string& name, std::size_t) { return matches(name); },
      options);
  for (const auto& each : model.named_modules("", /*include_self=*/false)) {
    ARGOSY_CHECK(
        !matches(each.key()) || std::ranges::count(wrapped, each.key()) > 0,
        "[recomputation.recompute_modules] {} is not a child of a Sequential, "
        "so its calls cannot be intercepted; call recompute() where the model "
        "calls it",
        each.key());
  }
  ARGOSY_CHECK(
      !wrapped.empty(),
      "[recomputation.recompute_modules] no module matches \"{}\"",
      pattern);
  return wrapped;
}

Names recompute_every(
    torch::nn::Module& model, int n, const RecomputeOptions& options) {
  ARGOSY_CHECK(
      n >= 1, "[recomputation.recompute_every] n is {}, expected 1 or more", n);
  return wrap_all(
      model,
      [n](const std::string&, std::size_t index) {
        return index % static_cast<std::size_t>(n) == 0;
      },
      options);
}

} // namespace argosy
