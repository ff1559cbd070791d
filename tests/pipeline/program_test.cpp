#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "argosy/comm/functional.h"
#include "argosy/pipeline/cut/cut.h"
#include "argosy/pipeline/cut/part_runner.h"
#include "argosy/pipeline/cut/program.h"
#include "argosy/tensor_parallel/ops.h"
#include "argosy/tensor_parallel/rng.h"
#include "argosy/testing/ranks.h"
#include "argosy/trace/recorded_call.h"
#include "argosy/world/world.h"
#include "tests/pipeline/chained_parts.h"
#include "tests/pipeline/cut_models.h"
#include "tests/support/refusal.h"

namespace argosy::testing {
namespace {

using pipeline::record;
using ::testing::HasSubstr;

class EachCutCase : public ::testing::TestWithParam<CutCase> {
 protected:
  void SetUp() override {
    const CutCase& test = GetParam();
    // What the first run does to buffers shall not differ between the two.
    whole_ = train_whole(*test.module, test.forward, test.inputs);
    set_back();
    program_ = std::make_shared<const Program>(
        record(*test.module, test.forward, test.inputs));
  }

  void set_back() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : GetParam().module->named_buffers()) {
      item.value().copy_(at_first_.at(item.key()));
    }
  }

  void TearDown() override { set_back(); }

  const std::map<std::string, at::Tensor> at_first_ =
      collect(*GetParam().module, {}, {}).buffers;
  Trained whole_;
  std::shared_ptr<const Program> program_;
};

TEST_P(EachCutCase, RunsAgainBitForBit) {
  const CutCase& test = GetParam();
  expect_same(collect(*test.module, {}, {}).buffers, at_first_);
  const auto runners = runners_of(program_, pipeline::cut(program_->graph, {}));
  expect_same(train_parts(*test.module, runners, test.inputs), whole_);
}

TEST_P(EachCutCase, RunsInPartsBitForBit) {
  const CutCase& test = GetParam();
  const auto runners =
      runners_of(program_, pipeline::cut(program_->graph, test.points));
  EXPECT_EQ(runners.size(), test.points.size() + 1);
  expect_same(train_parts(*test.module, runners, test.inputs), whole_);
}

INSTANTIATE_TEST_SUITE_P(
    Program,
    EachCutCase,
    ::testing::ValuesIn(cut_cases()),
    [](const auto& each) { return each.param.name; });

// A module whose forward is a function of the test's.
struct AnyImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(4, 4));
  at::Tensor kept = torch::ones({4}); // neither parameter nor buffer
};

using Fn = std::function<at::Tensor(AnyImpl&, const at::Tensor&)>;

struct Recorded {
  std::shared_ptr<AnyImpl> module = std::make_shared<AnyImpl>();
  std::shared_ptr<const Program> program;
  Forward forward;
};

Recorded record_fn(const Fn& fn) {
  torch::manual_seed(1);
  Recorded recorded;
  recorded.forward = [fn, module = recorded.module](const Tensors& inputs) {
    return Tensors{fn(*module, inputs[0])};
  };
  recorded.program = std::make_shared<const Program>(
      record(*recorded.module, recorded.forward, {torch::ones({3, 4})}));
  return recorded;
}

std::string refused(const Fn& fn) {
  return refusal([&] { record_fn(fn); });
}

void expect_replayed(const Fn& fn) {
  const Recorded recorded = record_fn(fn);
  const auto runners =
      runners_of(recorded.program, pipeline::cut(recorded.program->graph, {}));
  const Tensors inputs = {torch::randn({3, 4}, torch::requires_grad())};
  expect_same(
      train_parts(*recorded.module, runners, inputs),
      train_whole(*recorded.module, recorded.forward, inputs));
}

TEST(Record, WritesCompositeOpsDownAsOne) {
  const Recorded recorded = record_fn([](AnyImpl& self, const at::Tensor& x) {
    return torch::linear(x, self.layer->weight, self.layer->bias).softmax(-1);
  });
  ASSERT_EQ(recorded.program->graph.num_nodes(), 2);
  EXPECT_EQ(recorded.program->graph.node(0).op, "aten::linear");
  EXPECT_EQ(recorded.program->graph.node(0).work, 3 * 4 * 4);
}

TEST(Record, LeavesNoTrace) {
  torch::manual_seed(5);
  const at::Tensor drawn = torch::rand({3});
  torch::manual_seed(5);
  at::Tensor kept;
  record_fn([&](AnyImpl& self, const at::Tensor& x) {
    kept = self.kept;
    kept.add_(1);
    x.mul_(2);
    return self.layer(torch::dropout(x + kept, 0.5, true));
  });
  torch::manual_seed(1); // as record_fn() does
  AnyImpl();             // draws its weights
  const at::Tensor next = torch::rand({3});
  torch::manual_seed(1);
  record_fn([](AnyImpl& self, const at::Tensor& x) {
    return self.layer(torch::dropout(x, 0.5, true));
  });
  EXPECT_TRUE(torch::equal(torch::rand({3}), next));
  EXPECT_TRUE(torch::equal(kept, torch::ones({4})));
}

TEST(Record, KeepsConstantsAndWhatNoOpHasWritten) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    const std::vector<float> numbers = {1, 2, 3, 4};
    const at::Tensor row = torch::tensor(numbers); // filled behind the ops
    const at::Tensor flags = torch::tensor(numbers).to(torch::kBool);
    return self.layer(x) * row * self.kept +
        (1 - x.relu()).masked_fill(flags, 2);
  });
}

TEST(Record, TakesDataForWhatDetachReturns) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    const at::Tensor y = self.layer(x);
    return y * y.data() + self.layer->weight.data().sum();
  });
}

TEST(Record, FollowsShapesThatChangeInPlace) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    at::Tensor y = self.layer(x).unsqueeze_(0);
    const at::Tensor wide = y.expand({2, 3, 4}).sum({0});
    y.squeeze_(0).t_();
    return torch::mm(wide, y);
  });
}

TEST(Record, WritesToViewsAndNewMemory) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    at::Tensor y = torch::empty({3, 4});
    y.select(0, 0).copy_(x[0]);
    y.narrow(0, 1, 2).copy_(self.layer(x).narrow(0, 1, 2));
    return torch::cat({y, x * y}) + torch::stack(x.unbind(0)).sum();
  });
}

TEST(Record, TakesIndicesAndOptionalTensors) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    using torch::indexing::None;
    using torch::indexing::Slice;
    const at::Tensor picked = x.index({torch::tensor({2, 0, 1}), Slice()});
    at::Tensor y = self.layer(picked.index({Slice(), None}).squeeze(1));
    y.index_put_({x > 0}, 7);
    y = y + torch::one_hot((x.sum(1) > 0).to(torch::kLong), 4);
    return torch::layer_norm(y, {4}, self.layer->bias, {});
  });
}

TEST(Record, AllowsValuesOfWhatIsFixed) {
  expect_replayed([](AnyImpl& self, const at::Tensor& x) {
    const auto last = torch::arange(4).max().item<long>();
    return self.layer(x).select(1, last);
  });
}

TEST(Record, RefusesWhatDependsOnValues) {
  EXPECT_THAT(
      refused([](AnyImpl& self, const at::Tensor& x) {
        return x.sum().item<float>() > 0 ? self.layer(x) : x;
      }),
      HasSubstr("aten::item asks for a value"));
  EXPECT_THAT(
      refused([](AnyImpl& self, const at::Tensor& x) {
        return self.layer(x.index({x.sum(1) > 0}));
      }),
      HasSubstr("aten::index.Tensor makes a shape that depends on values"));
  EXPECT_THAT(
      refused([](AnyImpl& self, const at::Tensor& x) {
        return self.layer(x).masked_select(x > 0);
      }),
      HasSubstr("aten::masked_select makes a shape"));
}

struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x * 2;
  }
  static Tensors backward(
      torch::autograd::AutogradContext* /*context*/, Tensors gradients) {
    return {gradients[0] * 2};
  }
};

TEST(Record, RefusesWhatLeavesNoTraceOfItsGradient) {
  EXPECT_THAT(
      refused([](AnyImpl& self, const at::Tensor& x) {
        return Twice::apply(self.layer(x)) + 1;
      }),
      HasSubstr("a torch::autograd::Function"));
  EXPECT_THAT(
      refused([](AnyImpl& self, const at::Tensor& x) {
        return Twice::apply(self.layer(x));
      }),
      HasSubstr("a torch::autograd::Function"));
  const at::Tensor learned = torch::ones({4}, torch::requires_grad());
  EXPECT_THAT(
      refused([&](AnyImpl& self, const at::Tensor& x) {
        return self.layer(x) + learned;
      }),
      HasSubstr("is no parameter of the module"));
}

TEST(Record, RefusesCommunication) {
  run_ranks(1, [](World&) {
    EXPECT_THAT(
        refused([](AnyImpl& self, const at::Tensor& x) {
          at::Tensor y = self.layer(x).detach();
          all_reduce(y);
          return self.layer(y);
        }),
        HasSubstr("forward calls all_reduce"));
  });
}

// A function whose backward is not made of ops, and which asks for values.
TEST(Record, TakesACallForOneOp) {
  const Fn fn = [](AnyImpl& self, const at::Tensor& x) {
    const at::Tensor y = self.layer(x);
    const auto twice = [](const Tensors& in) {
      EXPECT_FALSE(trace::is_recording());
      return Tensors{Twice::apply(in[0]) * (in[1].size(0) > 0)};
    };
    return trace::recorded_call({y, self.layer->weight}, twice)[0] + 1;
  };
  expect_replayed(fn);
  const Recorded recorded = record_fn(fn);
  const trace::Graph& graph = recorded.program->graph;
  const auto call =
      std::ranges::find(graph.nodes, "argosy::call", &trace::Node::op);
  ASSERT_NE(call, graph.nodes.end());
  EXPECT_EQ(call->uses.size(), 2);
  EXPECT_EQ(call->makes.size(), 1);
}

// An even cut must know of products that hide in a call.
TEST(Record, CountsTheWorkOfACall) {
  const Recorded recorded = record_fn([](AnyImpl& self, const at::Tensor& x) {
    const auto product = [](const Tensors& in) {
      return Tensors{in[0].matmul(in[1])};
    };
    return trace::recorded_call({x, self.layer->weight}, product)[0];
  });
  EXPECT_EQ(recorded.program->graph.nodes[0].work, 3 * 4 * 4 + 3 * 4);
}

TEST(Record, RepeatsCommunication) {
  run_ranks(2, [](World& world) {
    expect_replayed([](AnyImpl& self, const at::Tensor& x) {
      return functional::all_reduce(self.layer(x)) + 1;
    });
    expect_replayed([](AnyImpl& self, const at::Tensor& x) {
      return functional::all_reduce(self.layer(x), ReduceOp::MAX);
    });
    expect_replayed([](AnyImpl& self, const at::Tensor& x) {
      const at::Tensor all = functional::all_gather(self.layer(x));
      return functional::reduce_scatter(all.tanh());
    });
    expect_replayed([](AnyImpl& self, const at::Tensor& x) {
      const at::Tensor part = functional::c_split(self.layer(x));
      return functional::c_concat(functional::c_identity(part));
    });
    expect_replayed([&](AnyImpl& self, const at::Tensor& x) {
      return tensor_parallel::lookup(
          self.layer->weight, x.detach().abs().to(at::kLong), world.rank());
    });
  });
}

// Streams of random numbers that a layer chose are those of the replay.
TEST(Record, KeepsStreamsOfRandomNumbers) {
  const at::Generator stream = at::detail::createCPUGenerator(9);
  const Recorded recorded = record_fn([&](AnyImpl& self, const at::Tensor& x) {
    const at::Tensor y = self.layer(x);
    const RngStatesTracker::Scope scope(stream);
    return torch::dropout(y, 0.5, true);
  });
  const PartRunner runner(
      recorded.program, pipeline::cut(recorded.program->graph, {}).parts[0]);
  const at::Tensor x = torch::randn({3, 4});
  at::Generator(stream).set_current_seed(3);
  const Tensors whole = recorded.forward({x});
  at::Generator(stream).set_current_seed(3);
  expect_same(runner.run({x}), whole);
}

TEST(PartRunner, GivesWhatArrivesItsStrides) {
  const Recorded recorded = record_fn([](AnyImpl& self, const at::Tensor& x) {
    const at::Tensor turned = self.layer(x).t(); // [4, 3]
    return turned.as_strided({4, 3}, {1, 4}) * 2;
  });
  const pipeline::Graph& graph = recorded.program->graph;
  std::vector<double> weights(graph.nodes.size(), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (graph.nodes[i].op == "aten::as_strided") { // cut right before it
      weights[i - 1] = weights[i] = 1;
    }
  }
  const auto runners =
      runners_of(recorded.program, pipeline::cut_evenly(graph, 2, weights));
  const Tensors inputs = {torch::randn({3, 4}, torch::requires_grad())};
  expect_same(
      train_parts(*recorded.module, runners, inputs),
      train_whole(*recorded.module, recorded.forward, inputs));
}

// At the latest when it is another one.
TEST(PartRunner, RefusesShapesThatDependOnValues) {
  EXPECT_THAT(
      refusal([] {
        const Recorded recorded =
            record_fn([](AnyImpl& /*self*/, const at::Tensor& x) {
              return x.repeat_interleave(x.select(1, 0).to(torch::kLong), 0);
            });
        const auto runners = runners_of(
            recorded.program, pipeline::cut(recorded.program->graph, {}));
        runners[0].run({torch::full({3, 4}, 2.0F)});
      }),
      HasSubstr("depends on values"));
}

TEST(PartRunner, ReleasesValuesAfterTheirLastUse) {
  const Recorded recorded =
      record_fn([](AnyImpl& /*self*/, const at::Tensor& x) {
        at::Tensor y = x;
        for (int i = 0; i < 20; ++i) {
          y = y.tanh();
        }
        return y;
      });
  const PartRunner runner(
      recorded.program, pipeline::cut(recorded.program->graph, {}).parts[0]);
  const torch::NoGradGuard no_grad;
  at::Tensor x = torch::ones({3, 4});
  const c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weak(
      x.getIntrusivePtr());
  Tensors given = {std::move(x)};
  x.reset();
  const Tensors out = runner.run(std::move(given));
  EXPECT_TRUE(weak.expired());
}

} // namespace
} // namespace argosy::testing
