#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>

#include "argosy/checkpoint/state_part.h"
#include "argosy/comm/codec.h"
#include "argosy/training/parallel_model.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class LRScheduler;
class Optimizer;
} // namespace torch::optim
namespace argosy::optim {
class AdaptiveLocalSgd;
class Ema;
class GradScaler;
class LocalSgd;
} // namespace argosy::optim

namespace argosy::checkpoint {

class State;

namespace detail {

// Has a position in the data: samplers and loaders.
template <typename T>
concept Positioned = requires(T& object) {
  object.load_state(object.state());
  object.state().to_json();
};

// Wraps a module: DataParallel, ShardedModel, DistributedModel, ...
template <typename T>
concept WrapsModule = requires(T& object) {
  object.core();
  object.module();
};

template <typename T>
concept HoldsModule = requires(T& object) {
  { *object } -> std::convertible_to<torch::nn::Module&>;
};

// A stage of a pipeline, or a pointer to one.
template <typename T>
concept HasModule = requires(T& object) {
  { object.module() } -> std::convertible_to<torch::nn::Module&>;
};
template <typename T>
concept PointsToModule = requires(T& object) {
  { object->module() } -> std::convertible_to<torch::nn::Module&>;
};

template <typename T>
concept WrapsOptimizer = requires(T& object) {
  { object.optimizer() } -> std::convertible_to<torch::optim::Optimizer&>;
};

// Types that fleet and other modules teach State, by a function
// add_to(State&, const std::string& name, T&) beside the type. An empty name
// asks for the type's own.
template <typename T>
concept Taught = requires(State& state, const std::string& name, T& object) {
  add_to(state, name, object);
};

template <typename T>
concept JsonValue = std::is_arithmetic_v<T> || std::same_as<T, std::string> ||
    std::same_as<T, nlohmann::json>;

template <typename T>
inline constexpr bool always_false = false;

// JSON has no infinities and no NaN: those are texts.
nlohmann::json json_of_number(double number);
double number_of_json(const nlohmann::json& value);

template <typename T>
nlohmann::json json_of(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return json_of_number(value);
  } else {
    return nlohmann::json(value);
  }
}

template <typename T>
void set_of_json(T& object, const nlohmann::json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    object = static_cast<T>(number_of_json(value));
  } else {
    object = value.template get<T>();
  }
}

} // namespace detail

// All that a run needs to continue: models, optimizers, scalers, averages,
// schedulers, samplers and loaders, random numbers, and values of your own.
//
//   checkpoint::State state{model, optimizer, scaler};
//   state.add("loader", loader).add("epoch", epoch);
//   checkpoint::save("runs/gpt", state, step);
//   checkpoint::load("runs/gpt", state);
//
// A model is a module, a holder of one, a stage of a pipeline, or a wrapper of
// any kind of parallelism; give the wrapper if there is one. Holds references:
// objects must outlive it. All ranks make it alike.
class State {
 public:
  template <typename... Objects>
  requires(sizeof...(Objects) > 0) explicit State(Objects&... objects)
      : State() {
    (add(objects), ...);
  }
  State();
  ~State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;

  // Adds an object under the name of its kind: "model", "optimizer", "scaler",
  // "ema", "scheduler", "local_sgd", "loader". Throws InvalidArgument if the
  // state has one of that name.
  template <typename T>
  requires(!std::convertible_to<T&, std::string>) State& add(T& object) {
    return put("", object);
  }

  // The same under another name. Objects of other types are values: numbers,
  // texts and JSON, and all types with a comm::Codec. Values are alike on all
  // ranks; the first rank's are saved.
  template <typename T>
  State& add(const std::string& name, T& object) {
    check_name(name);
    return put(name, object);
  }

  // A value that each rank has for itself. A rank that the checkpoint does not
  // know keeps its own.
  template <typename T>
  State& add_of_rank(const std::string& name, T& value) {
    check_name(name);
    add_bytes(name, codec_get(value), codec_set(value), true);
    return *this;
  }

  // A value by functions. `set` is called once all is read and verified.
  State& add(
      const std::string& name,
      std::function<nlohmann::json()> get,
      std::function<void(const nlohmann::json&)> set);

  // A part of your own.
  State& add(const std::string& name, std::unique_ptr<StatePart> part);

  // A value that is saved for readers of the checkpoint, and not loaded.
  State& note(const std::string& name, nlohmann::json value);

  // Leaves out random numbers.
  State& without_random();

  void add_model(
      const std::string& name,
      torch::nn::Module& module,
      std::shared_ptr<training::ModelCore> core = nullptr);
  void add_optimizer(
      const std::string& name, torch::optim::Optimizer& optimizer);
  void add_scaler(const std::string& name, optim::GradScaler& scaler);
  void add_ema(const std::string& name, optim::Ema& ema);
  void add_scheduler(
      const std::string& name, torch::optim::LRScheduler& scheduler);
  // A save averages the parameters first, by `average` if it is given. The
  // states of optimizers, which differ by rank, are those of the first rank.
  void add_local_sgd(
      const std::string& name,
      optim::LocalSgd& local,
      std::function<void()> average = nullptr);
  void add_local_sgd(
      const std::string& name,
      optim::AdaptiveLocalSgd& local,
      std::function<void()> average = nullptr);

  // For save() and load().
  Contents contents(int rank);
  void request(Request& request);

  // The same of what a step changes before the optimizer steps: values,
  // positions, random numbers, and buffers of models.
  Contents contents_of_compute(int rank);
  void request_of_compute(Request& request);

 private:
  struct Impl;

  template <typename T>
  State& put(const std::string& name, T& object);

  template <typename T>
  static std::function<std::string()> codec_get(T& value) {
    return [&value] { return comm::encode(value); };
  }
  template <typename T>
  static std::function<void(const std::string&)> codec_set(T& value) {
    return
        [&value](const std::string& bytes) { value = comm::decode<T>(bytes); };
  }

  static void check_name(const std::string& name);
  void add_part(std::string name, std::unique_ptr<StatePart> part);
  void add_changing(std::string name, std::unique_ptr<StatePart> part);
  void add_bytes(
      const std::string& name,
      std::function<std::string()> get,
      std::function<void(const std::string&)> set,
      bool of_rank);

  std::unique_ptr<Impl> impl_;
};

template <typename T>
State& State::put(const std::string& name, T& object) {
  const auto named = [&](const char* kind) {
    return name.empty() ? std::string(kind) : name;
  };
  if constexpr (detail::Taught<T>) {
    add_to(*this, name, object);
  } else if constexpr (std::is_base_of_v<torch::optim::Optimizer, T>) {
    add_optimizer(named("optimizer"), object);
  } else if constexpr (std::is_base_of_v<optim::GradScaler, T>) {
    add_scaler(named("scaler"), object);
  } else if constexpr (std::is_base_of_v<optim::Ema, T>) {
    add_ema(named("ema"), object);
  } else if constexpr (std::is_base_of_v<torch::optim::LRScheduler, T>) {
    add_scheduler(named("scheduler"), object);
  } else if constexpr (
      std::is_same_v<T, optim::LocalSgd> ||
      std::is_same_v<T, optim::AdaptiveLocalSgd>) {
    add_local_sgd(named("local_sgd"), object);
  } else if constexpr (detail::WrapsOptimizer<T>) {
    add_optimizer(named("optimizer"), object.optimizer());
  } else if constexpr (std::is_base_of_v<torch::nn::Module, T>) {
    add_model(named("model"), object);
  } else if constexpr (detail::WrapsModule<T>) {
    add_model(
        named("model"), training::as_module(object.module()), object.core());
  } else if constexpr (detail::HoldsModule<T>) {
    add_model(named("model"), *object);
  } else if constexpr (detail::HasModule<T>) {
    add_model(named("model"), object.module());
  } else if constexpr (detail::PointsToModule<T>) {
    add_model(named("model"), object->module());
  } else if constexpr (detail::Positioned<T>) {
    using Position = std::decay_t<decltype(object.state())>;
    add(
        named("loader"),
        [&object] { return nlohmann::json::parse(object.state().to_json()); },
        [&object](const nlohmann::json& value) {
          object.load_state(Position::from_json(value.dump()));
        });
  } else if constexpr (detail::JsonValue<T>) {
    check_name(name);
    add(
        name,
        [&object] { return detail::json_of(object); },
        [&object](const nlohmann::json& value) {
          detail::set_of_json(object, value);
        });
  } else if constexpr (requires { comm::Codec<T>::encode; }) {
    check_name(name);
    add_bytes(name, codec_get(object), codec_set(object), false);
  } else {
    static_assert(
        detail::always_false<T>,
        "State knows no way to save this type: specialise comm::Codec, or add "
        "a "
        "StatePart of your own");
  }
  return *this;
}

} // namespace argosy::checkpoint
