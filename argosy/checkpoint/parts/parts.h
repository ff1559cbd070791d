#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "argosy/checkpoint/state_part.h"
#include "argosy/training/parallel_model.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class LBFGS;
class LRScheduler;
class Optimizer;
} // namespace torch::optim
namespace argosy::optim {
class AdaptiveLocalSgd;
class Ema;
class GradScaler;
class LocalSgd;
} // namespace argosy::optim

// The parts that State knows. Objects must outlive them. Not installed.
namespace argosy::checkpoint {

// The names of the parameters of all models of a state, "model/fc.weight", by
// TensorImpl.
using ParameterNames = std::map<const void*, std::string>;
using NamesOf = std::function<const ParameterNames&()>;

// Parameters and buffers. `core` may be null.
std::unique_ptr<StatePart> model_part(
    std::string name,
    torch::nn::Module& module,
    std::shared_ptr<training::ModelCore> core);
// Each buffer once, by the name that it has in a checkpoint.
std::vector<std::pair<std::string, at::Tensor>> buffers_of(
    const std::string& name, const torch::nn::Module& module);
void add_names(
    const std::string& name,
    const torch::nn::Module& module,
    ParameterNames& names);

// `is_local`: whether, when it is saved, ranks have other values of what should
// be alike.
std::unique_ptr<StatePart> optimizer_part(
    std::string name,
    torch::optim::Optimizer& optimizer,
    NamesOf names,
    std::shared_ptr<const bool> is_local);
std::unique_ptr<StatePart> ema_part(
    std::string name, optim::Ema& ema, NamesOf names);
std::unique_ptr<StatePart> scaler_part(
    std::string name, optim::GradScaler& scaler);
std::unique_ptr<StatePart> scheduler_part(
    std::string name, torch::optim::LRScheduler& scheduler);
// `average` null: that of `local`.
std::unique_ptr<StatePart> local_sgd_part(
    std::string name, optim::LocalSgd& local, std::function<void()> average);
std::unique_ptr<StatePart> local_sgd_part(
    std::string name,
    optim::AdaptiveLocalSgd& local,
    std::function<void()> average);
std::unique_ptr<StatePart> lbfgs_part(
    std::string name, torch::optim::LBFGS& optimizer, NamesOf names);
// Torch's default generator, the streams of tensor parallelism, and DTensor's.
std::unique_ptr<StatePart> random_part();

// A value that is written as JSON.
struct JsonAccess {
  std::function<nlohmann::json()> get;
  // Checks and returns what brings the value in.
  std::function<std::function<void()>(const nlohmann::json&)> set;
};
std::unique_ptr<StatePart> json_part(std::string name, JsonAccess access);

// A value that is written as bytes: alike on all ranks, or of each rank.
struct BytesAccess {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;
};
std::unique_ptr<StatePart> bytes_part(
    std::string name, BytesAccess access, bool of_rank);

// The name of a parameter, or of the one that a piece belongs to. Throws
// InvalidArgument, tagged with `op`, if no model of the state has it.
std::string name_of(
    const at::Tensor& parameter, const ParameterNames& names, const char* op);

} // namespace argosy::checkpoint
