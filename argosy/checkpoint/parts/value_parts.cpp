// Parts that are a few numbers or bytes: scaler, schedulers, values of users.

#include <torch/optim/schedulers/lr_scheduler.h>

#include <utility>

#include "argosy/checkpoint/parts/parts.h"
#include "argosy/checkpoint/state.h"
#include "argosy/common/error.h"
#include "argosy/optim/ema.h"
#include "argosy/optim/grad_scaler.h"
#include "argosy/optim/local_sgd.h"

namespace argosy::checkpoint {

namespace {

using nlohmann::json;

class JsonPart final : public StatePart {
 public:
  JsonPart(std::string name, JsonAccess access)
      : name_(std::move(name)), access_(std::move(access)) {}

  void save(Contents& contents) override {
    contents.value(name_, access_.get());
  }

  void load(Request& request) override {
    const json* value = request.value(name_);
    if (value == nullptr) {
      return;
    }
    try {
      request.after(access_.set(*value));
    } catch (const json::exception& error) {
      throw CheckpointError(str_format(
          "[checkpoint.load] the value {} is {}: {}",
          name_,
          value->dump(),
          error.what()));
    }
  }

 private:
  const std::string name_;
  const JsonAccess access_;
};

class BytesPart final : public StatePart {
 public:
  BytesPart(std::string name, BytesAccess access, bool of_rank)
      : name_(std::move(name)), access_(std::move(access)), of_rank_(of_rank) {}

  void save(Contents& contents) override {
    if (of_rank_) {
      contents.bytes_of_rank(name_, access_.get());
    } else {
      contents.bytes(name_ + "/value", access_.get());
    }
  }

  void load(Request& request) override {
    request.bytes(
        of_rank_ ? str("rank/", request.rank(), '/', name_) : name_ + "/value",
        access_.set);
  }

 private:
  const std::string name_;
  const BytesAccess access_;
  const bool of_rank_;
};

class EmaPart final : public StatePart {
 public:
  EmaPart(std::string name, optim::Ema& ema, NamesOf names)
      : name_(std::move(name)), ema_(ema), names_(std::move(names)) {}

  void save(Contents& contents) override {
    ARGOSY_CHECK(
        !ema_.applied(),
        "[checkpoint.save] {} is applied: the parameters are the averages; "
        "call "
        "restore() first",
        name_);
    for_each("save", [&](const std::string& name, const auto& part) {
      contents.tensor(name, part);
    });
    contents.value(name_ + "/num_updates", ema_.num_updates());
  }

  void load(Request& request) override {
    const json* updates = request.value(name_ + "/num_updates");
    for_each("load", [&](const std::string& name, const auto& part) {
      request.tensor(name, part);
    });
    if (updates != nullptr) {
      const auto number = updates->get<std::int64_t>();
      request.after([this, number] { ema_.load(ema_.state(), number); });
    }
  }

 private:
  template <typename F>
  void for_each(const char* op, const F& f) const {
    for (std::size_t i = 0; i < ema_.params().size(); ++i) {
      const at::Tensor& parameter = ema_.params()[i];
      training::HeldPart part = training::held_part(parameter);
      part.values = ema_.state()[i];
      const std::string model = name_of(parameter, names_(), op);
      f(name_ + '/' + model.substr(model.find('/') + 1), part);
    }
  }

  const std::string name_;
  optim::Ema& ema_;
  const NamesOf names_;
};

json to_json(const optim::LocalSgd::State& state) {
  return {{"num_steps", state.num_steps}, {"k_steps", state.k_steps}};
}

json to_json(const optim::AdaptiveLocalSgd::State& state) {
  json all = to_json(state.local);
  if (state.start) {
    all["start_loss"] = detail::json_of_number(state.start->loss);
    all["start_lr"] = state.start->lr;
  }
  return all;
}

void of_json(const json& value, optim::LocalSgd::State& state) {
  state.num_steps = value.at("num_steps").get<std::int64_t>();
  state.k_steps = value.at("k_steps").get<int>();
}

void of_json(const json& value, optim::AdaptiveLocalSgd::State& state) {
  of_json(value, state.local);
  if (value.contains("start_loss")) {
    state.start = {
        detail::number_of_json(value.at("start_loss")),
        value.at("start_lr").get<double>()};
  }
}

// Saving is a time to average: all ranks have the same parameters then.
template <typename Local>
std::unique_ptr<StatePart> make_local_part(
    std::string name, Local& local, std::function<void()> average) {
  const auto get = [&local, average = std::move(average)] {
    average != nullptr ? average() : local.average();
    return to_json(local.state());
  };
  const auto set = [&local](const json& value) {
    typename Local::State state;
    of_json(value, state);
    return [&local, state] { local.set_state(state); };
  };
  return json_part(std::move(name), {get, set});
}

// LibTorch lets classes derived from a scheduler see how often it has stepped,
// and nobody else.
struct SchedulerSteps : torch::optim::LRScheduler {
  static unsigned& of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&SchedulerSteps::step_count_);
  }
};

} // namespace

std::unique_ptr<StatePart> json_part(std::string name, JsonAccess access) {
  return std::make_unique<JsonPart>(std::move(name), std::move(access));
}

std::unique_ptr<StatePart> bytes_part(
    std::string name, BytesAccess access, bool of_rank) {
  return std::make_unique<BytesPart>(
      std::move(name), std::move(access), of_rank);
}

std::unique_ptr<StatePart> ema_part(
    std::string name, optim::Ema& ema, NamesOf names) {
  return std::make_unique<EmaPart>(std::move(name), ema, std::move(names));
}

std::unique_ptr<StatePart> scaler_part(
    std::string name, optim::GradScaler& scaler) {
  const auto get = [&scaler] {
    const auto& state = scaler.state();
    return json{
        {"scale", state.scale},
        {"num_good", state.num_good},
        {"num_bad", state.num_bad}};
  };
  const auto set = [&scaler](const json& value) {
    const optim::GradScaler::State state{
        .scale = value.at("scale").get<double>(),
        .num_good = value.at("num_good").get<int>(),
        .num_bad = value.at("num_bad").get<int>()};
    return [&scaler, state] { scaler.set_state(state); };
  };
  return json_part(std::move(name), {get, set});
}

std::unique_ptr<StatePart> local_sgd_part(
    std::string name, optim::LocalSgd& local, std::function<void()> average) {
  return make_local_part(std::move(name), local, std::move(average));
}

std::unique_ptr<StatePart> local_sgd_part(
    std::string name,
    optim::AdaptiveLocalSgd& local,
    std::function<void()> average) {
  return make_local_part(std::move(name), local, std::move(average));
}

std::unique_ptr<StatePart> scheduler_part(
    std::string name, torch::optim::LRScheduler& scheduler) {
  const auto get = [&scheduler] {
    return json{{"step_count", SchedulerSteps::of(scheduler)}};
  };
  const auto set = [&scheduler](const json& value) {
    const auto steps = value.at("step_count").get<unsigned>();
    return [&scheduler, steps] { SchedulerSteps::of(scheduler) = steps; };
  };
  return json_part(std::move(name), {get, set});
}

} // namespace argosy::checkpoint
