#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "argosy/pipeline/tensor_call.h"

namespace argosy::pipeline {

using Forward = std::function<Tensors(const Tensors&)>;

// Describes a layer of a pipeline; the stage that owns it builds it. Made by
// layer(), shared_layer(), function() and existing().
struct LayerDesc {
  struct Built {
    std::shared_ptr<torch::nn::Module> module; // null for a function
    Forward forward;
  };

  std::string type; // class name; "function" for a function
  // Builds the layer. The argument is this stage's module with the same key,
  // which the layer reuses, or null.
  std::function<Built(const std::shared_ptr<torch::nn::Module>&)> build;
  // Layers with the same key share the parameters `shared_weights`; "": none.
  std::string key;
  std::vector<std::string> shared_weights;
};

namespace detail {

// The module class, given the class or its holder.
template <typename Module>
struct ImplOf {
  using Type = Module;
};
template <typename Holder>
requires requires {
  typename Holder::ContainedType;
}
struct ImplOf<Holder> {
  using Type = typename Holder::ContainedType;
};
template <typename Module>
using Impl = typename ImplOf<Module>::Type;

std::string class_name(const std::type_info& type);

// Describes a layer of class M that `make` constructs.
template <typename M, typename Call, typename Make>
LayerDesc describe(Call call, Make make) {
  LayerDesc desc;
  desc.type = class_name(typeid(M));
  desc.build = [type = desc.type, call, make](
                   const std::shared_ptr<torch::nn::Module>& existing) {
    const std::shared_ptr<M> module =
        existing ? std::dynamic_pointer_cast<M>(existing) : make();
    ARGOSY_CHECK(
        module != nullptr,
        "[pipeline] layers of one key are of different classes, one a ",
        type);
    Forward forward = [module, call, type](const Tensors& inputs) {
      const auto of_inputs =
          [&](const auto&... each) -> decltype(call(*module, each...)) {
        return call(*module, each...);
      };
      return call_with_tensors(of_inputs, inputs, type);
    };
    return LayerDesc::Built{module, std::move(forward)};
  };
  return desc;
}

template <typename M, typename... Args>
auto maker(Args... args) {
  return [args = std::make_tuple(std::move(args)...)] {
    return std::apply(
        [](const auto&... each) { return std::make_shared<M>(each...); }, args);
  };
}

struct CallForward {
  template <typename M, typename... Inputs>
  auto operator()(M& module, const Inputs&... inputs) const
      -> decltype(module.forward(inputs...)) {
    return module.forward(inputs...);
  }
};

} // namespace detail

// Describes a module by its class or holder and its constructor arguments:
//
//   layer<torch::nn::Linear>(torch::nn::LinearOptions(8, 8))
//
// Its forward receives the tensors that the previous layer returns, one by one
// or all in a std::vector, and returns a tensor or a range or tuple of tensors.
template <typename Module, typename... Args>
LayerDesc layer(Args... args) {
  using M = detail::Impl<Module>;
  return detail::describe<M>(
      detail::CallForward(), detail::maker<M>(std::move(args)...));
}

// Describes a layer that shares its parameters `weights` with all layers of the
// same key, on any stage. `call`, a function of the module and its inputs,
// replaces forward(), so that each layer can use the weights differently:
//
//   shared_layer<torch::nn::Embedding>("words", {"weight"}, options)
//   shared_layer_as<torch::nn::Embedding>("words", {"weight"},
//       [](auto& words, const at::Tensor& x) {
//         return torch::matmul(x, words.weight.t());
//       }, options)
template <typename Module, typename Call, typename... Args>
LayerDesc shared_layer_as(
    std::string key,
    std::vector<std::string> weights,
    Call call,
    Args... args) {
  using M = detail::Impl<Module>;
  LayerDesc desc = detail::describe<M>(
      std::move(call), detail::maker<M>(std::move(args)...));
  desc.key = std::move(key);
  desc.shared_weights = std::move(weights);
  return desc;
}

template <typename Module, typename... Args>
LayerDesc shared_layer(
    std::string key, std::vector<std::string> weights, Args... args) {
  return shared_layer_as<Module>(
      std::move(key),
      std::move(weights),
      detail::CallForward(),
      std::move(args)...);
}

// Describes a function without parameters.
template <typename Fn>
LayerDesc function(Fn fn) {
  LayerDesc desc;
  desc.type = "function";
  desc.build = [fn = std::move(fn)](
                   const std::shared_ptr<torch::nn::Module>& /*existing*/) {
    return LayerDesc::Built{nullptr, [fn](const Tensors& inputs) {
                              return call_with_tensors(
                                  fn, inputs, "a function");
                            }};
  };
  return desc;
}

// Describes an existing module, which must have equal values on all ranks.
template <typename M>
LayerDesc existing(std::shared_ptr<M> module) {
  return detail::describe<M>(
      detail::CallForward(), [module = std::move(module)] { return module; });
}
template <typename Holder>
requires requires {
  typename Holder::ContainedType;
}
LayerDesc existing(Holder holder) {
  return existing(holder.ptr());
}

} // namespace argosy::pipeline
