// One optimizer step over all parameters of a model, compared to torch::optim;
// and other operations on all gradients.

#include <torch/types.h>

// Must come after the include above.
#include <torch/nn/utils/clip_grad.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "argosy/argosy.h"
#include "argosy/optim/adagrad.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/gradients.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/sgd.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Model {
  const char* what;
  int num_tensors;
  std::int64_t numel; // of each parameter

  Tensors make() const {
    torch::manual_seed(1);
    Tensors params;
    for (int i = 0; i < num_tensors; ++i) {
      params.push_back(torch::randn({numel}).requires_grad_());
      params.back().mutable_grad() = torch::randn({numel});
    }
    return params;
  }

  double numel_of_all() const {
    return static_cast<double>(num_tensors) * static_cast<double>(numel);
  }
};

constexpr Model kModels[] = {
    {"200 tensors of 1000", 200, 1000}, {"4 tensors of 4M", 4, 4 << 20}};

// Microseconds per call; calls f for 40 ms.
template <typename F>
double microseconds(const F& f) {
  using Clock = std::chrono::steady_clock;
  f(); // allocates states
  const auto began = Clock::now();
  std::chrono::duration<double, std::micro> passed{};
  int calls = 0;
  do {
    f();
    ++calls;
    passed = Clock::now() - began;
  } while (passed.count() < 40e3);
  return passed.count() / calls;
}

// Reads and writes as many bytes as a step, in place, with almost no
// computation: the limit set by memory.
class Touch {
 public:
  explicit Touch(double bytes) {
    const auto numel = static_cast<std::int64_t>(bytes / 2 / sizeof(float));
    params_.push_back(torch::empty({numel}));
    params_.back().mutable_grad() = torch::ones({numel});
  }

  double operator()() const {
    return microseconds([&] { optim::scale_grads(params_, 1.0); });
  }

 private:
  Tensors params_;
};

// `words` is the number of floats that a step reads and writes per element.
template <typename Ours, typename Theirs, typename Options>
Row race_optimizer(
    const char* name,
    const Model& model,
    const Options& options,
    double words,
    int rounds) {
  const optim::FlatParameters flat(model.make());
  Ours ours(flat.params(), options);
  Theirs theirs(model.make(), options);
  const double bytes = words * sizeof(float) * model.numel_of_all();
  const Touch touch(bytes);
  Row row = race(
      str(name, ", ", model.what),
      "us",
      Better::Lower,
      rounds,
      {{"ours", [&] { return microseconds([&] { ours.step(); }); }},
       {"memory", [&] { return touch(); }},
       {"torch", [&] { return microseconds([&] { theirs.step(); }); }}});
  row.extra["GB/s"] = 1e-3 * bytes / row.ours;
  row.extra["roofline_share"] = row.peers.at("memory") / row.ours;
  row.peers.erase("memory");
  return row;
}

// For optimizers that torch does not have.
template <typename Ours, typename Options>
Row time_optimizer(
    const char* name, const Model& model, const Options& options, int rounds) {
  const optim::FlatParameters flat(model.make());
  Ours ours(flat.params(), options);
  return race(
      str(name, ", ", model.what),
      "us",
      Better::Lower,
      rounds,
      {{"ours", [&] { return microseconds([&] { ours.step(); }); }}});
}

Row race_clip(const Model& model, int rounds) {
  const Tensors ours = model.make();
  const Tensors theirs = model.make();
  // The norm is above the limit, so that every call clips.
  const auto clip_ours = [&] { optim::clip_grad_norm_(ours, 1e-3); };
  const auto clip_theirs = [&] {
    torch::nn::utils::clip_grad_norm_(theirs, 1e-3);
  };
  return race(
      str("clip_grad_norm_, ", model.what),
      "us",
      Better::Lower,
      rounds,
      {{"ours", [&] { return microseconds(clip_ours); }},
       {"torch", [&] { return microseconds(clip_theirs); }}});
}

void run_model(Report& report, const Model& model, int rounds) {
  report.add(race_optimizer<optim::SGD, torch::optim::SGD>(
      "SGD", model, optim::SGDOptions(1e-3), 3, rounds));
  report.add(race_optimizer<optim::SGD, torch::optim::SGD>(
      "SGD with momentum",
      model,
      optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-4),
      5,
      rounds));
  report.add(race_optimizer<optim::Adam, torch::optim::Adam>(
      "Adam", model, optim::AdamOptions(1e-3), 7, rounds));
  report.add(race_optimizer<optim::AdamW, torch::optim::AdamW>(
      "AdamW", model, optim::AdamWOptions(1e-3), 7, rounds));
  report.add(race_optimizer<optim::Adagrad, torch::optim::Adagrad>(
      "Adagrad", model, optim::AdagradOptions(1e-3), 5, rounds));
  report.add(time_optimizer<optim::Lars>(
      "LARS", model, optim::LarsOptions(1e-3), rounds));
  report.add(time_optimizer<optim::Lamb>(
      "LAMB", model, optim::LambOptions(1e-3), rounds));
  report.add(race_clip(model, rounds));
}

void run(const Flags& flags) {
  Report report("optim", flags);
  for (const Model& model : kModels) {
    run_model(report, model, flags.quick ? 5 : 15);
  }
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
