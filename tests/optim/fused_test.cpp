// The optimizers against torch::optim and against their papers' formulas.

#include "argosy/optim/fused.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/serialize.h>

#include <cmath>
#include <set>
#include <sstream>

#include "argosy/common/error.h"
#include "argosy/optim/adagrad.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/flat_parameters.h"
#include "argosy/optim/lamb.h"
#include "argosy/optim/lars.h"
#include "argosy/optim/parameter_groups.h"
#include "argosy/optim/sgd.h"
#include "tests/optim/param_sets.h"
#include "tests/support/refusal.h"

namespace argosy::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using torch::optim::OptimizerParamGroup;

constexpr int kSteps = 25;

void expect_close(
    const Tensors& ours, const Tensors& theirs, double tolerance) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(torch::allclose(ours[i], theirs[i], tolerance, tolerance))
        << "parameter " << i << " differs by "
        << (ours[i] - theirs[i]).abs().max().item<double>();
  }
}

void run_steps(
    torch::optim::Optimizer& optimizer,
    const Tensors& params,
    int from,
    int to) {
  for (int step = from; step < to; ++step) {
    set_grads(params, step);
    optimizer.step();
  }
}

// The first half in one group, the others in one with other options.
template <typename Options>
std::vector<OptimizerParamGroup> two_groups(
    const Tensors& params, const Options& second) {
  const auto middle = params.begin() + 5;
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(Tensors(params.begin(), middle));
  groups.emplace_back(
      Tensors(middle, params.end()), std::make_unique<Options>(second));
  return groups;
}

template <typename Ours, typename Theirs, typename Options>
void compare(
    const Options& first, const Options& second, c10::ScalarType type) {
  const Tensors our_params = make_params(type);
  const Tensors their_params = make_params(type);
  Ours ours(two_groups(our_params, second), first);
  Theirs theirs(two_groups(their_params, second), first);
  for (int step = 0; step < kSteps; ++step) {
    set_grads(our_params, step);
    set_grads(their_params, step);
    ours.step();
    theirs.step();
  }
  const double tolerance = type == torch::kDouble ? 1e-12 : 3e-6;
  expect_close(our_params, their_params, tolerance);
}

template <typename Ours, typename Theirs, typename Options>
void compare(const Options& first, const Options& second) {
  compare<Ours, Theirs>(first, second, torch::kFloat);
  compare<Ours, Theirs>(first, second, torch::kDouble);
}

TEST(SGD, EqualsTorch) {
  compare<SGD, torch::optim::SGD>(
      SGDOptions(0.1), SGDOptions(0.05).weight_decay(0.1));
}

TEST(SGD, EqualsTorchWithMomentum) {
  compare<SGD, torch::optim::SGD>(
      SGDOptions(0.1).momentum(0.9),
      SGDOptions(0.05).momentum(0.8).dampening(0.2).weight_decay(0.01));
}

TEST(SGD, EqualsTorchWithNesterov) {
  compare<SGD, torch::optim::SGD>(
      SGDOptions(0.1).momentum(0.9).nesterov(true),
      SGDOptions(0.1).momentum(0.5).nesterov(true).weight_decay(0.1));
}

TEST(Adam, EqualsTorch) {
  compare<Adam, torch::optim::Adam>(
      AdamOptions(0.01),
      AdamOptions(0.02).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1));
}

TEST(Adam, EqualsTorchWithAmsgrad) {
  compare<Adam, torch::optim::Adam>(
      AdamOptions(0.01).amsgrad(true), AdamOptions(0.01).weight_decay(0.1));
}

TEST(AdamW, EqualsTorch) {
  compare<AdamW, torch::optim::AdamW>(
      AdamWOptions(0.01), AdamWOptions(0.02).weight_decay(0.2).amsgrad(true));
}

TEST(Adagrad, EqualsTorch) {
  compare<Adagrad, torch::optim::Adagrad>(
      AdagradOptions(0.1).initial_accumulator_value(0.5),
      AdagradOptions(0.05).lr_decay(0.01).weight_decay(0.1).eps(1e-6));
}

// ---- LARS and LAMB, as their papers have them -------------------------------

double length_of(const at::Tensor& tensor) {
  return tensor.to(torch::kDouble).norm().item<double>();
}

struct Reference {
  at::Tensor m;
  at::Tensor v;
  int step = 0;
};

void lars_reference(
    const LarsOptions& options,
    at::Tensor& p,
    const at::Tensor& g,
    Reference& r) {
  const double weight = length_of(p);
  const double grad = length_of(g);
  double rate = options.lr();
  if (options.adapt() && weight > 0 && grad > 0) {
    rate *= options.lars_coeff() * weight /
        (grad + options.weight_decay() * weight + options.epsilon());
  }
  if (!r.v.defined()) {
    r.v = torch::zeros_like(p);
  }
  r.v = options.momentum() * r.v + rate * (g + options.weight_decay() * p);
  p = p - r.v;
}

void lamb_reference(
    const LambOptions& options,
    at::Tensor& p,
    const at::Tensor& g,
    Reference& r) {
  if (!r.m.defined()) {
    r.m = torch::zeros_like(p);
    r.v = torch::zeros_like(p);
  }
  const auto [beta1, beta2] = options.betas();
  ++r.step;
  r.m = beta1 * r.m + (1 - beta1) * g;
  r.v = beta2 * r.v + (1 - beta2) * g * g;
  const at::Tensor m = r.m / (1 - std::pow(beta1, r.step));
  const at::Tensor v = r.v / (1 - std::pow(beta2, r.step));
  const at::Tensor direction =
      m / (v.sqrt() + options.eps()) + options.weight_decay() * p;
  const double weight = length_of(p);
  const double length = length_of(direction);
  const bool adapt = options.adapt() && weight > 0 && length > 0;
  p = p - options.lr() * (adapt ? weight / length : 1) * direction;
}

template <typename Optimizer, typename Options, typename Formula>
void compare_with_formula(
    const Options& first, const Options& second, const Formula& formula) {
  const Tensors params = make_params();
  params[3].data().zero_(); // |p| = 0
  Tensors expected;
  for (const at::Tensor& param : params) {
    expected.push_back(param.detach().clone());
  }
  std::vector<Reference> references(params.size());
  Optimizer optimizer(two_groups(params, second), first);
  for (int step = 0; step < kSteps; ++step) {
    set_grads(params, step);
    if (step == 2 && params[2].grad().defined()) {
      params[2].mutable_grad().zero_(); // |g| = 0
    }
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (params[i].grad().defined()) {
        formula(
            i < 5 ? first : second,
            expected[i],
            params[i].grad(),
            references[i]);
      }
    }
    optimizer.step();
  }
  expect_close(params, expected, 1e-5);
}

TEST(Lars, EqualsThePapersFormula) {
  compare_with_formula<Lars>(
      LarsOptions(0.5),
      LarsOptions(1.0).lars_coeff(0.02).epsilon(1e-3),
      lars_reference);
  compare_with_formula<Lars>(
      LarsOptions(0.5).weight_decay(0),
      LarsOptions(0.01).adapt(false),
      lars_reference);
}

TEST(Lamb, EqualsThePapersFormula) {
  compare_with_formula<Lamb>(
      LambOptions(0.01), LambOptions(0.02).betas({0.8, 0.9}), lamb_reference);
  compare_with_formula<Lamb>(
      LambOptions(0.01).weight_decay(0),
      LambOptions(0.02).adapt(false),
      lamb_reference);
}

TEST(Groups, AreSplitByName) {
  torch::nn::Linear layer(3, 2);
  const ParamGroups groups = split_groups(
      layer->named_parameters(),
      name_contains({"bias", "norm"}),
      LambOptions(),
      LambOptions().weight_decay(0));
  ASSERT_EQ(groups.groups.size(), 2u);
  EXPECT_TRUE(groups.groups[1].params()[0].is_same(layer->bias));
  Lamb optimizer(groups);
  const auto& second = optimizer.param_groups()[1].options();
  EXPECT_EQ(static_cast<const LambOptions&>(second).weight_decay(), 0);
  EXPECT_TRUE(has_less_than_two_dims()("x", layer->bias));
  EXPECT_FALSE(has_less_than_two_dims()("x", layer->weight));
}

// ---- What FusedOptimizer does for all ---------------------------------------

TEST(FusedOptimizer, TakesParametersInFlatMemory) {
  const Tensors our_params = make_params();
  const Tensors their_params = make_params();
  FlatParameters flat(our_params);
  flat.attach_grads();
  Adam ours(our_params, AdamOptions(0.01));
  torch::optim::Adam theirs(their_params, AdamOptions(0.01));
  for (int step = 0; step < kSteps; ++step) {
    ours.zero_grad();
    theirs.zero_grad();
    at::Tensor loss;
    for (std::size_t i = 0; i < our_params.size(); ++i) {
      (our_params[i] * our_params[i]).sum().backward();
      (their_params[i] * their_params[i]).sum().backward();
    }
    ours.step();
    theirs.step();
  }
  expect_close(our_params, their_params, 3e-6);
  EXPECT_EQ(our_params[5].grad().data_ptr(), flat.grad_view(5).data_ptr());
}

TEST(FusedOptimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  const int before = at::get_num_threads();
  std::vector<Tensors> results;
  for (const int num_threads : {1, 2, 3}) {
    at::set_num_threads(num_threads);
    Tensors params = make_params();
    params.insert(params.begin(), torch::randn({800001}).requires_grad_());
    Lamb optimizer(params, LambOptions(0.01));
    run_steps(optimizer, params, 0, 2);
    results.push_back(params);
  }
  at::set_num_threads(before);
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(torch::equal(results[0][i], results[1][i])) << i;
    EXPECT_TRUE(torch::equal(results[0][i], results[2][i])) << i;
  }
}

TEST(FusedOptimizer, CallsTheClosureWithGradients) {
  at::Tensor p = torch::ones({2}, torch::requires_grad());
  SGD optimizer(Tensors{p}, SGDOptions(0.5));
  const torch::NoGradGuard no_grad;
  const at::Tensor loss = optimizer.step([&] {
    at::Tensor value = (3 * p).sum();
    value.backward();
    return value;
  });
  EXPECT_EQ(loss.item<float>(), 6);
  EXPECT_TRUE(torch::equal(p, torch::full({2}, -0.5f)));
}

TEST(FusedOptimizer, WorksWithTorchsSchedulers) {
  at::Tensor p = torch::ones({1}, torch::requires_grad());
  Lars optimizer(Tensors{p}, LarsOptions(0.4));
  torch::optim::StepLR scheduler(optimizer, 1, 0.5);
  scheduler.step(); // the first leaves the rate alone
  scheduler.step();
  EXPECT_DOUBLE_EQ(optimizer.param_groups()[0].options().get_lr(), 0.2);
}

TEST(FusedOptimizer, TellsAutogradThatParametersChanged) {
  at::Tensor p = torch::ones({2}, torch::requires_grad());
  SGD optimizer(Tensors{p}, SGDOptions(0.5));
  p.mutable_grad() = torch::ones({2});
  const at::Tensor loss = (p * p).sum();
  optimizer.step();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(FusedOptimizer, ScalesGradientsAsItReadsThem) {
  at::Tensor p = torch::zeros({3}, torch::requires_grad());
  SGD optimizer(Tensors{p}, SGDOptions(1));
  p.mutable_grad() = torch::full({3}, 8.f);
  optimizer.set_grad_scale(0.25);
  optimizer.step();
  EXPECT_TRUE(torch::equal(p, torch::full({3}, -2.f)));
  EXPECT_TRUE(torch::equal(p.grad(), torch::full({3}, 8.f)));
}

TEST(FusedOptimizer, ZeroesGradientsInPlace) {
  at::Tensor p = torch::zeros({3}, torch::requires_grad());
  at::Tensor q = torch::zeros({4, 3}, torch::requires_grad());
  SGD optimizer(Tensors{p, q}, SGDOptions(1));
  p.mutable_grad() = torch::ones({3});
  q.mutable_grad() = torch::ones({3, 4}).t();
  const void* before = p.grad().data_ptr();
  optimizer.zero_grad();
  EXPECT_EQ(p.grad().data_ptr(), before);
  EXPECT_TRUE(torch::equal(p.grad(), torch::zeros({3})));
  EXPECT_TRUE(torch::equal(q.grad(), torch::zeros({4, 3})));
}

template <typename Ours, typename Theirs, typename Options>
void compare_sparse(const Options& options) {
  const auto table = [] {
    torch::manual_seed(5);
    return torch::nn::Embedding(
        torch::nn::EmbeddingOptions(20, 7).sparse(true));
  };
  auto our_table = table();
  auto their_table = table();
  Ours ours(our_table->parameters(), options);
  Theirs theirs(their_table->parameters(), options);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor rows = torch::tensor({step % 20, 3, 3, 19});
    our_table->weight.mutable_grad() = at::Tensor();
    their_table->weight.mutable_grad() = at::Tensor();
    our_table->forward(rows).pow(2).sum().backward();
    their_table->forward(rows).pow(2).sum().backward();
    ours.step();
    theirs.step();
  }
  expect_close({our_table->weight}, {their_table->weight}, 1e-6);
}

TEST(FusedOptimizer, TakesSparseGradientsWhereTorchDoes) {
  compare_sparse<SGD, torch::optim::SGD>(SGDOptions(0.1));
  compare_sparse<Adagrad, torch::optim::Adagrad>(
      AdagradOptions(0.1).lr_decay(0.01));
}

// Of each row as if it were a parameter of its own that only has a gradient in
// some steps, with the age of the whole.
template <typename Ours, typename Options>
void compare_lazy(const Options& options, bool decoupled) {
  const auto [beta1, beta2] = options.betas();
  torch::manual_seed(5);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(20, 7).sparse(true));
  table->to(torch::kDouble);
  at::Tensor weight = table->weight.detach().clone();
  at::Tensor mean = torch::zeros_like(weight);
  at::Tensor square = torch::zeros_like(weight);
  at::Tensor most = torch::zeros_like(weight);
  Ours optimizer(table->parameters(), options, SparseMode{.lazy_mode = true});
  for (int step = 1; step <= kSteps; ++step) {
    const at::Tensor rows = torch::tensor({step % 19, 3, 3});
    table->weight.mutable_grad() = at::Tensor();
    table->forward(rows).pow(2).sum().backward();
    optimizer.step();
    for (const int row : std::set<int>{step % 19, 3}) {
      // Row 3 is read twice, or three times.
      const int reads = 3 == row ? (step % 19 == 3 ? 3 : 2) : 1;
      const at::Tensor p = weight[row];
      const double decay = options.weight_decay();
      const at::Tensor g = 2.0 * reads * p + (decoupled ? 0 : decay) * p;
      mean[row].copy_(beta1 * mean[row] + (1 - beta1) * g);
      square[row].copy_(beta2 * square[row] + (1 - beta2) * g * g);
      most[row].copy_(torch::maximum(most[row], square[row]));
      const at::Tensor by = options.amsgrad() ? most[row] : square[row];
      const at::Tensor root =
          (by / (1 - std::pow(beta2, step))).sqrt() + options.eps();
      p.copy_(
          p * (1 - (decoupled ? options.lr() * decay : 0)) -
          options.lr() / (1 - std::pow(beta1, step)) * mean[row] / root);
    }
  }
  expect_close({table->weight}, {weight}, 1e-12);
}

TEST(FusedOptimizer, LazyModeChangesRowsWithAGradient) {
  compare_lazy<Adam>(AdamOptions(0.1).weight_decay(0.01), false);
  compare_lazy<Adam>(AdamOptions(0.1).amsgrad(true), false);
  compare_lazy<AdamW>(AdamWOptions(0.1).weight_decay(0.1), true);
}

TEST(FusedOptimizer, RefusesSparseGradientsAndChangesNothing) {
  at::Tensor dense = torch::ones({3}, torch::requires_grad());
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 3).sparse(true));
  Adam optimizer({Tensors{dense}, table->parameters()});
  dense.mutable_grad() = torch::ones({3});
  table->forward(torch::tensor({1})).sum().backward();
  EXPECT_THAT(
      argosy::testing::refusal([&] { optimizer.step(); }),
      HasSubstr("set lazy_mode"));
  EXPECT_TRUE(torch::equal(dense, torch::ones({3})));
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(FusedOptimizer, RefusesParametersOfIntegers) {
  at::Tensor p = torch::ones({3}, torch::kComplexFloat);
  SGD optimizer(Tensors{p}, SGDOptions(0.1));
  p.mutable_grad() = torch::ones({3}, torch::kComplexFloat);
  try {
    optimizer.step();
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter 0 of group 0"));
  }
}

TEST(FusedOptimizer, RefusesImpossibleOptions) {
  const Tensors p = {torch::ones({1})};
  EXPECT_THROW(SGD(p, SGDOptions(-1)), InvalidArgument);
  EXPECT_THROW(SGD(p, SGDOptions(1).nesterov(true)), InvalidArgument);
  EXPECT_THROW(Adam(p, AdamOptions(1).betas({1.0, 0.9})), InvalidArgument);
  EXPECT_THROW(AdamW(p, AdamWOptions(1).eps(-1)), InvalidArgument);
  EXPECT_THROW(Adagrad(p, AdagradOptions(-1)), InvalidArgument);
  EXPECT_THROW(Lars(p, LarsOptions(1).momentum(-1)), InvalidArgument);
  EXPECT_THROW(Lamb(p, LambOptions(1).eps(0)), InvalidArgument);
}

// ---- Master weights ---------------------------------------------------------

Tensors float_twins(const Tensors& params) {
  Tensors twins;
  for (const at::Tensor& param : params) {
    twins.push_back(param.detach().to(torch::kFloat).requires_grad_());
  }
  return twins;
}

// A float32 twin that sees the same 16-bit gradients is the master.
template <typename Ours, typename Theirs, typename Options>
void compare_master(const Options& options, c10::ScalarType type) {
  const Tensors params = make_params(type);
  const Tensors twins = float_twins(params);
  Ours ours(params, options);
  Theirs theirs(twins, options);
  for (int step = 0; step < kSteps; ++step) {
    set_grads(params, step);
    for (std::size_t i = 0; i < params.size(); ++i) {
      twins[i].mutable_grad() = params[i].grad().defined()
          ? params[i].grad().to(torch::kFloat)
          : at::Tensor();
    }
    ours.step();
    theirs.step();
  }
  const StateDict states = ours.state_dict();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const at::Tensor master = states.at(std::to_string(i) + ".master");
    expect_close({master}, {twins[i]}, 3e-6);
    EXPECT_TRUE(torch::equal(params[i], master.to(type))) << i;
  }
}

TEST(MasterWeights, AddUpWhatSixteenBitsCannotHold) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    compare_master<SGD, torch::optim::SGD>(SGDOptions(1e-4), type);
    compare_master<SGD, torch::optim::SGD>(
        SGDOptions(1e-4).momentum(0.9).weight_decay(0.1), type);
    compare_master<Adam, torch::optim::Adam>(AdamOptions(1e-4), type);
    compare_master<AdamW, torch::optim::AdamW>(AdamWOptions(1e-4), type);
    compare_master<Adagrad, torch::optim::Adagrad>(AdagradOptions(1e-3), type);
  }
}

// A float32 twin that sees the same float32 gradients has the masters' bits.
template <typename Ours, typename Options>
void compare_main_grads(const Options& options, c10::ScalarType type) {
  const Tensors params = make_params(type);
  const Tensors twins = float_twins(params);
  Ours ours(params, options);
  Ours theirs(twins, options);
  for (int step = 0; step < 5; ++step) {
    set_grads(twins, step);
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i].mutable_grad() = twins[i].grad();
    }
    ours.step();
    theirs.step();
  }
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(torch::equal(params[i], twins[i].to(type))) << i;
  }
}

TEST(MasterWeights, TakeGradientsInFloat) {
  for (const auto type : {torch::kBFloat16, torch::kHalf}) {
    compare_main_grads<SGD>(SGDOptions(0.1), type);
    compare_main_grads<SGD>(SGDOptions(0.1).momentum(0.9), type);
    compare_main_grads<Adam>(AdamOptions(0.01).amsgrad(true), type);
    compare_main_grads<AdamW>(AdamWOptions(0.01), type);
    compare_main_grads<Adagrad>(AdagradOptions(0.01), type);
    compare_main_grads<Lars>(LarsOptions(0.1), type);
    compare_main_grads<Lamb>(LambOptions(0.01), type);
  }
}

// ---- Checkpoints ------------------------------------------------------------

void copy_values(const Tensors& to, const Tensors& from) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i].copy_(from[i]);
  }
}

// Goes on with `Second` from an archive of `First`, as if nothing had happened.
template <typename First, typename Second, typename Options>
void resume(const Options& options, c10::ScalarType type, bool exact) {
  const Tensors whole_params = make_params(type);
  First whole(whole_params, options);
  run_steps(whole, whole_params, 0, 10);
  std::stringstream file;
  torch::serialize::OutputArchive out;
  whole.save(out);
  out.save_to(file);

  const Tensors params = make_params(type);
  Second resumed(params, options);
  set_grads(params, 99);
  resumed.step(); // a state to be replaced
  copy_values(params, whole_params);
  torch::serialize::InputArchive in;
  in.load_from(file);
  resumed.load(in);
  run_steps(whole, whole_params, 10, 20);
  run_steps(resumed, params, 10, 20);
  for (std::size_t i = 0; i < params.size(); ++i) {
    EXPECT_TRUE(
        exact ? torch::equal(params[i], whole_params[i])
              : torch::allclose(params[i], whole_params[i], 1e-5, 1e-6))
        << i;
  }
}

TEST(Checkpoint, ResumesToTheSameBits) {
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    resume<SGD, SGD>(SGDOptions(0.01).momentum(0.9), type, true);
    resume<Adam, Adam>(AdamOptions(0.01).amsgrad(true), type, true);
    resume<AdamW, AdamW>(AdamWOptions(0.01), type, true);
    resume<Adagrad, Adagrad>(AdagradOptions(0.01).lr_decay(0.1), type, true);
    resume<Lars, Lars>(LarsOptions(0.1), type, true);
    resume<Lamb, Lamb>(LambOptions(0.01), type, true);
  }
}

TEST(Checkpoint, IsTorchs) {
  const auto type = torch::kFloat;
  const auto sgd = SGDOptions(0.01).momentum(0.9);
  resume<SGD, torch::optim::SGD>(sgd, type, false);
  resume<torch::optim::SGD, SGD>(sgd, type, false);
  resume<Adam, torch::optim::Adam>(AdamOptions(0.01), type, false);
  resume<torch::optim::Adam, Adam>(
      AdamOptions(0.01).amsgrad(true), type, false);
  resume<torch::optim::AdamW, AdamW>(AdamWOptions(0.01), type, false);
  resume<torch::optim::Adagrad, Adagrad>(AdagradOptions(0.01), type, false);
}

TEST(Checkpoint, ByName) {
  at::Tensor a = torch::ones({3}, torch::requires_grad());
  at::Tensor b = torch::ones({2}, torch::requires_grad()).to(torch::kBFloat16);
  b = b.detach().requires_grad_();
  at::Tensor unused = torch::ones({2}, torch::requires_grad());
  const std::vector<std::string> names = {"a", "b", "c"};
  const Tensors params = {a, b, unused};
  Adam first(params);
  a.mutable_grad() = torch::ones({3});
  b.mutable_grad() = torch::ones({2}, torch::kBFloat16);
  first.step();
  StateDict states = first.state_dict(names);
  std::vector<std::string> keys;
  for (auto& [name, tensor] : states) {
    keys.push_back(name);
    tensor = tensor.clone();
  }
  EXPECT_THAT(
      keys,
      UnorderedElementsAre(
          "a.exp_avg",
          "a.exp_avg_sq",
          "a.step",
          "b.exp_avg",
          "b.exp_avg_sq",
          "b.master",
          "b.step"));

  const Tensors copies = {
      a.detach().clone().requires_grad_(),
      b.detach().clone().requires_grad_(),
      unused.detach().clone().requires_grad_()};
  // Another order of the parameters: names decide.
  Adam second(Tensors{copies[2], copies[1], copies[0]});
  second.load_state_dict(states, {"c", "b", "a"});
  for (std::size_t i = 0; i < 2; ++i) {
    copies[i].mutable_grad() = params[i].grad();
  }
  first.step();
  second.step();
  EXPECT_TRUE(torch::equal(copies[0], a));
  EXPECT_TRUE(torch::equal(copies[1], b));

  states["d.exp_avg"] = torch::ones({1});
  EXPECT_THROW(
      second.load_state_dict(states, {"c", "b", "a"}), InvalidArgument);
  states.erase("d.exp_avg");
  states["a.exp_avg"] = torch::ones({4});
  EXPECT_THROW(
      second.load_state_dict(states, {"c", "b", "a"}), InvalidArgument);
  EXPECT_THROW(second.state_dict({"c"}), InvalidArgument);
}

TEST(State, LiesInOneBufferPerKind) {
  const Tensors params = make_params();
  Adam optimizer(params);
  for (const at::Tensor& param : params) {
    param.mutable_grad() = torch::ones_like(param);
  }
  optimizer.step();
  const StateDict states = optimizer.state_dict();
  const at::Tensor first = states.at("2.exp_avg");
  for (const char* other : {"0.exp_avg", "5.exp_avg", "9.exp_avg"}) {
    EXPECT_TRUE(states.at(other).is_alias_of(first)) << other;
  }
  EXPECT_FALSE(states.at("2.exp_avg_sq").is_alias_of(first));
}

} // namespace
} // namespace argosy::optim
