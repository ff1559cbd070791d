#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>

// Not installed.
namespace argosy::pipeline {

// A module with some of another module's parameters and buffers, under the same
// names, for optimizers and checkpoints.
class StateSubset : public torch::nn::Module {
 public:
  explicit StateSubset(std::shared_ptr<torch::nn::Module> whole)
      : torch::nn::Module(whole->name()), whole_(std::move(whole)) {}

  void add_parameter(const std::string& path, const at::Tensor& tensor) {
    auto [owner, name] = owner_of(path);
    owner->register_parameter(name, tensor, tensor.requires_grad());
  }
  void add_buffer(const std::string& path, const at::Tensor& tensor) {
    auto [owner, name] = owner_of(path);
    owner->register_buffer(name, tensor);
  }

  void train(bool on = true) override {
    torch::nn::Module::train(on);
    whole_->train(on);
  }

 private:
  // For "a.b.weight": the module a.b, created if missing, and "weight".
  std::pair<torch::nn::Module*, std::string> owner_of(const std::string& path) {
    torch::nn::Module* owner = this;
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos;
         dot = path.find('.', begin)) {
      const std::string name = path.substr(begin, dot - begin);
      const auto children = owner->named_children();
      const auto* known = children.find(name);
      owner = known == nullptr
          ? owner->register_module(name, std::make_shared<Module>()).get()
          : known->get();
      begin = dot + 1;
    }
    return {owner, path.substr(begin)};
  }

  const std::shared_ptr<torch::nn::Module> whole_;
};

} // namespace argosy::pipeline
