#include "argosy/checkpoint/state.h"

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "argosy/checkpoint/parts/parts.h"
#include "argosy/common/error.h"

namespace argosy::checkpoint {

namespace detail {

nlohmann::json json_of_number(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  if (std::isinf(number)) {
    return number > 0 ? "inf" : "-inf";
  }
  return number;
}

double number_of_json(const nlohmann::json& value) {
  if (!value.is_string()) {
    return value.get<double>();
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return value == "inf" ? infinity
      : value == "-inf" ? -infinity
                        : std::numeric_limits<double>::quiet_NaN();
}

} // namespace detail

struct State::Impl {
  struct Model {
    std::string name;
    torch::nn::Module* module;
  };

  std::vector<std::unique_ptr<StatePart>> parts;
  std::vector<std::size_t> changing; // parts that contents_of_compute() has
  std::set<std::string> used;        // names
  std::vector<Model> models;
  // Parts look up parameters in it.
  std::shared_ptr<ParameterNames> names = std::make_shared<ParameterNames>();
  std::unique_ptr<StatePart> random = random_part(); // null: left out
  // Ranks step on their own: states of optimizers differ.
  std::shared_ptr<bool> is_local = std::make_shared<bool>(false);

  NamesOf names_of() const {
    return [names = names]() -> const ParameterNames& { return *names; };
  }

  // Wrappers that were made since may have replaced parameters.
  void find_names() {
    names->clear();
    for (const Model& model : models) {
      add_names(model.name, *model.module, *names);
    }
  }
};

State::State() : impl_(std::make_unique<Impl>()) {}
State::~State() = default;
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;

void State::check_name(const std::string& name) {
  ARGOSY_CHECK(
      !name.empty() && name.find('/') == std::string::npos && name != "rank" &&
          name != "random",
      "[checkpoint.state] the name \"{}\", expected a text without '/' that is "
      "not \"rank\" or \"random\"",
      name);
}

void State::add_changing(std::string name, std::unique_ptr<StatePart> part) {
  add_part(std::move(name), std::move(part));
  impl_->changing.push_back(impl_->parts.size() - 1);
}

void State::add_part(std::string name, std::unique_ptr<StatePart> part) {
  ARGOSY_CHECK(
      impl_->used.insert(name).second,
      "[checkpoint.state] there is a \"{}\" already: give this one a name of "
      "its own, add(\"...\", object)",
      name);
  impl_->parts.push_back(std::move(part));
}

State& State::add(
    const std::string& name,
    std::function<nlohmann::json()> get,
    std::function<void(const nlohmann::json&)> set) {
  const auto checked = [set = std::move(set)](const nlohmann::json& value) {
    return [set, value] { set(value); };
  };
  add_changing(name, json_part(name, {std::move(get), checked}));
  return *this;
}

State& State::add(const std::string& name, std::unique_ptr<StatePart> part) {
  check_name(name);
  add_changing(name, std::move(part));
  return *this;
}

State& State::note(const std::string& name, nlohmann::json value) {
  class Note final : public StatePart {
   public:
    Note(std::string name, nlohmann::json value)
        : name_(std::move(name)), value_(std::move(value)) {}
    void save(Contents& contents) override { contents.value(name_, value_); }
    void load(Request& /*request*/) override {}

   private:
    const std::string name_;
    const nlohmann::json value_;
  };
  check_name(name);
  add_part(name, std::make_unique<Note>(name, std::move(value)));
  return *this;
}

State& State::without_random() {
  impl_->random = nullptr;
  return *this;
}

void State::add_bytes(
    const std::string& name,
    std::function<std::string()> get,
    std::function<void(const std::string&)> set,
    bool of_rank) {
  add_changing(
      name, bytes_part(name, {std::move(get), std::move(set)}, of_rank));
}

void State::add_model(
    const std::string& name,
    torch::nn::Module& module,
    std::shared_ptr<training::ModelCore> core) {
  add_part(name, model_part(name, module, std::move(core)));
  impl_->models.push_back({name, &module});
}

void State::add_optimizer(
    const std::string& name, torch::optim::Optimizer& optimizer) {
  add_part(
      name,
      optimizer_part(name, optimizer, impl_->names_of(), impl_->is_local));
}

void State::add_scaler(const std::string& name, optim::GradScaler& scaler) {
  add_changing(name, scaler_part(name, scaler));
}

void State::add_ema(const std::string& name, optim::Ema& ema) {
  add_part(name, ema_part(name, ema, impl_->names_of()));
}

void State::add_scheduler(
    const std::string& name, torch::optim::LRScheduler& scheduler) {
  add_part(name, scheduler_part(name, scheduler));
}

void State::add_local_sgd(
    const std::string& name,
    optim::LocalSgd& local,
    std::function<void()> average) {
  add_part(name, local_sgd_part(name, local, std::move(average)));
  *impl_->is_local = true;
}

void State::add_local_sgd(
    const std::string& name,
    optim::AdaptiveLocalSgd& local,
    std::function<void()> average) {
  add_part(name, local_sgd_part(name, local, std::move(average)));
  *impl_->is_local = true;
}

Contents State::contents(int rank) {
  impl_->find_names();
  Contents all(rank);
  for (const auto& part : impl_->parts) {
    part->save(all);
  }
  if (impl_->random != nullptr) {
    impl_->random->save(all);
  }
  return all;
}

void State::request(Request& request) {
  impl_->find_names();
  for (const auto& part : impl_->parts) {
    part->load(request);
  }
  if (impl_->random != nullptr) {
    impl_->random->load(request);
  }
}

Contents State::contents_of_compute(int rank) {
  Contents all(rank);
  for (const Impl::Model& model : impl_->models) {
    for (const auto& [name, buffer] : buffers_of(model.name, *model.module)) {
      all.tensor(name, training::held_part(buffer), true);
    }
  }
  for (const std::size_t index : impl_->changing) {
    impl_->parts[index]->save(all);
  }
  if (impl_->random != nullptr) {
    impl_->random->save(all);
  }
  return all;
}

void State::request_of_compute(Request& request) {
  for (const Impl::Model& model : impl_->models) {
    for (const auto& [name, buffer] : buffers_of(model.name, *model.module)) {
      request.tensor(name, training::held_part(buffer));
    }
  }
  for (const std::size_t index : impl_->changing) {
    impl_->parts[index]->load(request);
  }
  if (impl_->random != nullptr) {
    impl_->random->load(request);
  }
}

} // namespace argosy::checkpoint
