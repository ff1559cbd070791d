// Data parallel training against one process that has the whole batch.

#include "argosy/data_parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "argosy/comm/flight/record_json.h"
#include "argosy/comm/flight_record.h"
#include "argosy/comm/traffic.h"
#include "argosy/common/error.h"
#include "argosy/data/sampler.h"
#include "argosy/data_parallel/sync_batch_norm.h"
#include "argosy/observe/world_observer.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/training/parameter_marks.h"
#include "argosy/world/world.h"
#include "tests/observe/recording_sink.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using ::testing::HasSubstr;

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear first{nullptr};
  torch::nn::Linear second{nullptr};
  torch::nn::Linear third{nullptr};

  MlpImpl() {
    first = register_module("first", torch::nn::Linear(6, 10));
    second = register_module("second", torch::nn::Linear(10, 10));
    third = register_module("third", torch::nn::Linear(10, 3));
  }

  at::Tensor forward(const at::Tensor& x) {
    return third(second(first(x).tanh()).tanh());
  }
};
TORCH_MODULE(Mlp);

// The same on every rank, and apart from the process's generator, which thread
// ranks share.
void set_weights(torch::nn::Module& module, int variant = 0) {
  const at::NoGradGuard no_grad;
  int index = variant;
  for (auto& parameter : module.parameters()) {
    const auto n = parameter.numel();
    parameter.copy_(
        ((torch::arange(n) * 37 + 11 * ++index) % 23 - 11)
            .to(parameter.scalar_type())
            .reshape(parameter.sizes()) /
        40);
  }
}

struct Batch {
  at::Tensor x;
  at::Tensor y;
};

// Rows for all ranks.
Batch batch_of(int step, std::int64_t rows, torch::Dtype type = torch::kFloat) {
  const auto x = ((torch::arange(rows * 6) * 29 + 7 * step) % 19 - 9)
                     .to(type)
                     .reshape({rows, 6}) /
      10;
  return {x, torch::stack({x.sum(1), x.prod(1), x.select(1, 0)}, 1)};
}

Batch part_of(const Batch& whole, int rank, int size) {
  return {whole.x.chunk(size)[rank], whole.y.chunk(size)[rank]};
}

template <typename Model>
void train(
    Model& model,
    torch::optim::Optimizer& optimizer,
    int steps,
    const std::function<Batch(int)>& batch,
    std::vector<double>* losses = nullptr) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Batch data = batch(step);
    const auto loss = torch::mse_loss(model(data.x), data.y);
    loss.backward();
    optimizer.step();
    if (losses != nullptr) {
      losses->push_back(loss.template item<double>());
    }
  }
}

void expect_close(const torch::nn::Module& a, const torch::nn::Module& b) {
  for (const auto& item : a.named_parameters()) {
    EXPECT_TRUE(torch::allclose(
        item.value(), b.named_parameters()[item.key()], 1e-9, 1e-12))
        << item.key();
  }
}

Mlp trained_alone(int steps, std::int64_t rows) {
  Mlp alone;
  alone->to(torch::kDouble);
  set_weights(*alone);
  torch::optim::SGD optimizer(
      alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  train(alone, optimizer, steps, [&](int step) {
    return batch_of(step, rows, torch::kDouble);
  });
  return alone;
}

TEST(DataParallel, FusionIdsDecideWhatIsReducedTogether) {
  const Mlp expected = trained_alone(2, 4);
  argosy::testing::run_ranks(2, [&](World& world) {
    Mlp net;
    net->to(torch::kDouble);
    set_weights(*net);
    set_comm_fusion(*net, 1);
    set_comm_fusion(net->parameters().front(), 0);
    EXPECT_EQ(marks_of(net->parameters().back()).comm_fusion, 1);
    EXPECT_THROW(set_comm_fusion(*net, -1), InvalidArgument);
    DataParallel model(
        net, DataParallelOptions{.fusion = data_parallel::Fusion::Mode::None});
    EXPECT_EQ(model.plan().buckets.size(), 2u);
    torch::optim::SGD optimizer(
        net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    train(model, optimizer, 2, [&](int step) {
      return part_of(batch_of(step, 4, torch::kDouble), world.rank(), 2);
    });
    EXPECT_EQ(model.plan().buckets.size(), 2u) << model.plan();
    expect_close(*net, *expected);
  });
}

TEST(DataParallel, CountsItsReductions) {
  argosy::testing::run_ranks(2, [](World& world) {
    Mlp net;
    DataParallel model(
        net,
        DataParallelOptions{
            .fusion = data_parallel::Fusion::Mode::Index,
            .fusion_starts = {2}});
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto batch = [&](int step) {
      return part_of(batch_of(step, 4), world.rank(), 2);
    };
    train(model, optimizer, 1, batch); // learns the order
    const auto before = get_group()->traffic().total();
    train(model, optimizer, 3, batch);
    const auto after = get_group()->traffic().total();
    EXPECT_EQ(after.calls - before.calls, 2u * 3);
    std::size_t bytes = 0;
    for (const auto& bucket : model.plan().buckets) {
      bytes += bucket.bytes();
    }
    EXPECT_EQ(after.bytes - before.bytes, 3 * bytes);
  });
}

TEST(DataParallel, WaitsForGradientsAreObserved) {
  argosy::testing::run_ranks(2, [](World& world) {
    Mlp net;
    DataParallel model(net);
    const auto sink = std::make_shared<observe::RecordingSink>(
        std::vector{observe::Interest::Spans});
    observe::observer_of(world)->add(sink);
    model(batch_of(world.rank(), 4).x).sum().backward();
    EXPECT_THAT(sink->names, ::testing::ElementsAre("wait for gradients"));
    EXPECT_EQ(sink->stretches.at(0).activity, observe::Activity::Wait);
    const auto local = model.no_sync();
    model(batch_of(world.rank(), 4).x).sum().backward();
    EXPECT_EQ(sink->names.size(), 1u) << "there is nothing to wait for";
  });
}

TEST(DataParallel, BucketsFollowTheObservedOrder) {
  argosy::testing::run_ranks(2, [](World&) {
    // Registered in the order of use, so the expected order is right; here the
    // second layer is used before the first.
    struct Twisted : torch::nn::Module {
      torch::nn::Linear a = register_module("a", torch::nn::Linear(4, 4));
      torch::nn::Linear b = register_module("b", torch::nn::Linear(4, 4));
      at::Tensor forward(const at::Tensor& x) { return a(b(x)); }
    };
    const auto net = std::make_shared<Twisted>();
    DataParallel model(
        net, DataParallelOptions{.fusion = data_parallel::Fusion::Mode::None});
    const auto first_of = [&] {
      return model.plan().buckets.front().entries.front().parameter;
    };
    EXPECT_EQ(first_of(), 3u) << "b.bias, registered last";
    model(torch::ones({2, 4})).sum().backward();
    EXPECT_LT(first_of(), 2u) << "a, used last";
    const auto gradient = net->b->weight.grad().clone();
    net->zero_grad();
    model(torch::ones({2, 4})).sum().backward();
    EXPECT_TRUE(torch::equal(net->b->weight.grad(), gradient));
  });
}

TEST(DataParallel, TakesAnyKindOfModule) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto x = torch::full({2, 6}, world.rank() + 1.0f);
    Mlp holder;
    DataParallel by_holder(holder);
    DataParallel by_pointer(holder.ptr());
    EXPECT_EQ(by_pointer(x).sizes(), by_holder.forward(x).sizes());
    DataParallel sequence(torch::nn::Sequential(
        torch::nn::Linear(6, 3), torch::nn::ReLU(), torch::nn::Linear(3, 1)));
    sequence(x).sum().backward();
    DataParallel any(torch::nn::AnyModule(torch::nn::Linear(6, 2)));
    any(x).sum().backward();
    const auto gradient = any->parameters()[0].grad();
    EXPECT_TRUE(torch::equal(gradient, torch::full({2, 6}, 3.0f)))
        << "the average of 2 and 4";
  });
}

// What flight records, traces and errors call the operations.
TEST(DataParallel, OperationsSayWhatTheyAreFor) {
  argosy::testing::run_ranks(2, [](World&) {
    torch::nn::Sequential net(
        torch::nn::Linear(6, 10),
        torch::nn::BatchNorm1d(10),
        torch::nn::Linear(10, 3));
    convert_sync_batchnorm(*net);
    DataParallel model(net);
    model(batch_of(0, 4).x).sum().backward();
    const auto record =
        comm::flight::parse_record(comm::flight_record_json(), "own");
    std::multiset<std::string> labels;
    for (const auto& operation : record.operations) {
      labels.insert(operation.call.label.text());
    }
    EXPECT_EQ(labels.count(""), 0u);
    EXPECT_GE(labels.count("values of the model"), 1u);
    // Two in forward, two in backward.
    EXPECT_EQ(labels.count("batch norm statistics"), 4u);
    EXPECT_EQ(labels.count("gradients, bucket 0 (2.bias ...)"), 1u);
  });
}

TEST(DataParallel, NoSyncAddsUpLocally) {
  argosy::testing::run_ranks(2, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
    DataParallel model(net);
    const auto backward = [&](float value) {
      model(torch::full({1, 2}, value + world.rank())).sum().backward();
    };
    {
      const auto guard = model.no_sync();
      backward(10);
      EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 10 + world.rank());
      backward(20);
      EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 30 + 2 * world.rank());
    }
    backward(5);
    EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 35 + 1.5f);
    backward(1);
    EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 36.5f + 1.5f)
        << "a second backward adds";
  });
}

TEST(DataParallel, NoSyncCanBeMovedAndDependOnACondition) {
  argosy::testing::run_ranks(2, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
    DataParallel model(net);
    const auto gradient = [&](auto&& scope) {
      model.zero_grad();
      {
        const auto moved = std::forward<decltype(scope)>(scope);
        model(torch::full({1, 2}, 4.0f + world.rank())).sum().backward();
      }
      return net->weight.grad()[0][0].item<float>();
    };
    static_assert(!std::is_copy_constructible_v<training::NoSync>);
    EXPECT_EQ(gradient(model.no_sync()), 4.0f + world.rank());
    EXPECT_TRUE(model.core()->sync()) << "the last owner has ended it";
    EXPECT_EQ(gradient(model.no_sync(false)), 4.5f);
    // Kept in a container, for the passes before the last.
    std::vector<training::NoSync> kept;
    kept.push_back(model.no_sync());
    EXPECT_FALSE(model.core()->sync());
    kept.clear();
    EXPECT_TRUE(model.core()->sync());
  });
}

struct Branches : torch::nn::Module {
  torch::nn::Linear trunk = register_module("trunk", torch::nn::Linear(2, 2));
  torch::nn::Linear left = register_module("left", torch::nn::Linear(2, 1));
  torch::nn::Linear right = register_module("right", torch::nn::Linear(2, 1));
  torch::nn::Linear spare = register_module("spare", torch::nn::Linear(2, 1));

  std::tuple<at::Tensor, int> forward(const at::Tensor& x, bool go_left) {
    const auto y = trunk(x);
    return {go_left ? left(y) : right(y), 0};
  }
};

TEST(DataParallel, FindsUnusedParameters) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto net = std::make_shared<Branches>();
    DataParallel model(
        net, DataParallelOptions{.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto [y, zero] =
          model(torch::ones({1, 2}), (world.rank() + step) % 2 == 0);
      y.sum().backward();
      EXPECT_FALSE(net->spare->weight.grad().defined())
          << "no rank used it, so it has no gradient";
      EXPECT_EQ(net->left->bias.grad()[0].item<float>(), 0.5f);
      EXPECT_EQ(net->right->bias.grad()[0].item<float>(), 0.5f);
    }
  });
}

struct TwoHeads : torch::nn::Module {
  torch::nn::Linear left = register_module("left", torch::nn::Linear(2, 1));
  torch::nn::Linear right = register_module("right", torch::nn::Linear(2, 1));

  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {left(x), right(x)};
  }
};

// The outputs depend on both heads, each rank's loss on one: as far as a loss
// does not depend on a parameter, its gradient is zero.
TEST(DataParallel, OutputsThatTheLossLeavesOutCountAsZeros) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto loss_of = [&](auto& model, int step) {
      const auto [left, right] = model(torch::ones({1, 2}));
      return ((world.rank() + step) % 2 == 0 ? left : right).sum();
    };
    const auto net = std::make_shared<TwoHeads>();
    DataParallel model(
        net, DataParallelOptions{.find_unused_parameters = true});
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      loss_of(model, step).backward();
      EXPECT_EQ(net->left->bias.grad()[0].item<float>(), 0.5f);
      EXPECT_EQ(net->right->bias.grad()[0].item<float>(), 0.5f);
    }
    net->zero_grad();
    net->right->bias.mutable_grad().fill_(7);
    std::get<0>(model(torch::ones({1, 2}))).sum().backward();
    EXPECT_EQ(net->left->bias.grad()[0].item<float>(), 1);
    EXPECT_EQ(net->right->bias.grad()[0].item<float>(), 7)
        << "no loss depends on it, so it keeps the gradient that it had";

    const auto strict = std::make_shared<TwoHeads>();
    DataParallel without(strict);
    EXPECT_THAT(
        argosy::testing::refusal([&] {
          std::get<0>(without(torch::ones({1, 2}))).sum().backward();
        }),
        HasSubstr("right.weight, right.bias"));
  });
}

TEST(DataParallel, AStaticGraphIsLookedAtOnce) {
  argosy::testing::run_ranks(2, [](World& world) {
    const auto net = std::make_shared<Branches>();
    DataParallel model(net, DataParallelOptions{.static_graph = true});
    const auto calls_of_step = [&](bool go_left) {
      const auto before = get_group()->traffic().total().calls;
      net->zero_grad();
      std::get<0>(model(torch::ones({1, 2}), go_left)).sum().backward();
      EXPECT_FALSE(net->spare->weight.grad().defined());
      EXPECT_EQ(net->left->bias.grad()[0].item<float>(), 0.5f);
      EXPECT_EQ(net->right->bias.grad()[0].item<float>(), 0.5f);
      return get_group()->traffic().total().calls - before;
    };
    const bool mine = world.rank() == 0;
    const auto buckets = model.plan().buckets.size();
    EXPECT_EQ(calls_of_step(mine), buckets + 1);
    EXPECT_EQ(calls_of_step(mine), buckets);
    EXPECT_EQ(calls_of_step(mine), buckets);
    try {
      std::get<0>(model(torch::ones({1, 2}), !mine)).sum().backward();
      ADD_FAILURE() << "another branch than before";
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("with static_graph"));
    }
  });
}

TEST(DataParallel, NamesUnusedParametersOtherwise) {
  argosy::testing::run_ranks(2, [](World&) {
    const auto net = std::make_shared<Branches>();
    DataParallel model(net);
    try {
      std::get<0>(model(torch::ones({1, 2}), true)).sum().backward();
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("right.weight, right.bias"));
      EXPECT_THAT(error.what(), HasSubstr("find_unused_parameters"));
    }
  });
}

TEST(DataParallel, RefusesDoubleBackward) {
  argosy::testing::run_ranks(2, [](World&) {
    torch::nn::Linear net(2, 1);
    DataParallel model(net);
    const auto loss = model(torch::ones({1, 2})).pow(3).sum();
    try {
      loss.backward({}, true, true);
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("create_graph"));
    }
  });
}

TEST(DataParallel, NamesTheParameterThatDiffers) {
  argosy::testing::run_ranks(3, [](World& world) {
    torch::nn::Sequential net(
        torch::nn::Linear(4, 4),
        torch::nn::Linear(4, world.rank() == 2 ? 5 : 3));
    try {
      DataParallel model(net);
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 2"));
      EXPECT_THAT(error.what(), HasSubstr("1.weight"));
      EXPECT_THAT(error.what(), HasSubstr("[5, 4]"));
    }
  });
}

TEST(DataParallel, SharedParametersAndSeveralTypes) {
  argosy::testing::run_ranks(2, [](World& world) {
    struct Shared : torch::nn::Module {
      torch::nn::Linear one = register_module("one", torch::nn::Linear(3, 3));
      torch::nn::Linear again = register_module("again", one);
      at::Tensor scale =
          register_parameter("scale", torch::ones({1}, torch::kDouble));
      at::Tensor forward(const at::Tensor& x) {
        return again(one(x)).to(torch::kDouble) * scale;
      }
    };
    const auto net = std::make_shared<Shared>();
    set_weights(*net);
    DataParallel model(net);
    const auto whole = torch::arange(12.0f).reshape({4, 3});
    model(whole.chunk(2)[world.rank()]).mean().backward();
    const auto averaged = net->one->weight.grad().clone();
    const auto scale = net->scale.grad().clone();
    for (auto& parameter : net->parameters()) {
      parameter.mutable_grad() = at::Tensor();
    }
    const auto guard = model.no_sync();
    net->forward(whole).mean().backward();
    EXPECT_TRUE(torch::allclose(averaged, net->one->weight.grad()));
    EXPECT_TRUE(torch::allclose(scale, net->scale.grad()));
  });
}

TEST(DataParallel, SparseGradientsOfEmbeddings) {
  argosy::testing::run_ranks(3, [](World& world) {
    torch::nn::Embedding net(torch::nn::EmbeddingOptions(10, 2).sparse(true));
    DataParallel model(net);
    // Different numbers of rows, and some in common.
    std::vector<std::int64_t> own(
        static_cast<std::size_t>(world.rank() + 1), 4);
    own[0] = world.rank();
    model(torch::tensor(own)).sum().backward();
    const auto gradient = net->weight.grad();
    EXPECT_TRUE(gradient.is_sparse());
    const auto dense = gradient.to_dense();
    EXPECT_NEAR(dense[4][0].item<float>(), (0 + 1 + 2) / 3.0, 1e-6);
    for (int row = 0; row < 3; ++row) {
      EXPECT_NEAR(dense[row][1].item<float>(), 1 / 3.0, 1e-6);
    }
    EXPECT_EQ(dense[7][0].item<float>(), 0);
  });
}

TEST(DataParallel, JoinWithUnevenInputs) {
  argosy::testing::run_ranks(3, [](World& world) {
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    {
      const at::NoGradGuard no_grad;
      net->weight.fill_(1);
    }
    DataParallel model(net);
    torch::optim::SGD optimizer(net->parameters(), 1.0);
    auto join = model.join();
    // Rank r has r + 1 batches, all with gradient r + 1.
    for (int step = 0; step <= world.rank(); ++step) {
      optimizer.zero_grad();
      model(torch::full({1, 1}, world.rank() + 1.0f)).sum().backward();
      optimizer.step();
    }
    join.finish();
    // 1 - (1+2+3)/3 - (2+3)/2 - 3
    EXPECT_FLOAT_EQ(net->weight.item<float>(), 1 - 2 - 2.5f - 3);
    // Afterwards all take part again.
    optimizer.zero_grad();
    model(torch::ones({1, 1})).sum().backward();
    EXPECT_FLOAT_EQ(net->weight.grad().item<float>(), 1);
  });
}

// A layer that counts its calls in a buffer, as running statistics do.
struct CountingImpl : torch::nn::Module {
  torch::nn::Linear inner = register_module("inner", torch::nn::Linear(1, 1));
  at::Tensor calls = register_buffer("calls", torch::zeros({1}));

  at::Tensor forward(const at::Tensor& x, float how_many) {
    const at::NoGradGuard no_grad;
    calls += how_many;
    const at::AutoGradMode grad(true);
    return inner(x);
  }
};
TORCH_MODULE(Counting);

TEST(DataParallel, JoinBroadcastsTheBuffersOfARankWithInputs) {
  argosy::testing::run_ranks(3, [](World& world) {
    Counting net;
    DataParallel model(net, {.broadcast_buffers = true});
    // Each rank adds its own number, so that only that of the first rank with
    // inputs is kept: rank 0 has 1 batch, rank 1 has 3, rank 2 has 2.
    const std::vector<int> batches = {1, 3, 2};
    auto join = model.join();
    for (int step = 0; step < batches[world.rank()]; ++step) {
      const auto guard = model.no_sync(step == 1);
      model(torch::ones({1, 1}), world.rank() == 0 ? 100.0f : 1.0f)
          .sum()
          .backward();
    }
    join.finish();
    // The 100 of rank 0 are lost, as it has no second batch. Rank 1 is the
    // first from then on.
    EXPECT_EQ(net->calls.item<float>(), 3);
    // Afterwards it is rank 0 again.
    const float added = world.rank() == 0 ? 100 : 1;
    model(torch::ones({1, 1}), added).sum().backward();
    model(torch::ones({1, 1}), 0.0f).sum().backward();
    EXPECT_EQ(net->calls.item<float>(), 103);
  });
}

TEST(DataParallel, SaysThatARankRanOutOfBatches) {
  argosy::testing::run_ranks(2, [](World& world) {
    data::DistributedBatchSampler sampler(
        3, {.num_replicas = 2, .rank = world.rank(), .pad = false});
    torch::nn::Linear net(1, 1);
    DataParallel model(net);
    const auto train_epoch = [&] {
      while (const auto batch = sampler.next()) {
        model(torch::ones({1, 1})).sum().backward();
      }
      barrier();
    };
    try {
      train_epoch();
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("ranks disagree about operation "));
      if (world.rank() == 0) {
        EXPECT_THAT(
            error.what(),
            HasSubstr(
                "A rank ran out of batches: rank 1 of the sampler has 1 "
                "batches in an epoch and rank 0 has 2; train with join()"));
      }
    }
  });
}

TEST(DataParallel, ClippingEqualsOneProcess) {
  argosy::testing::run_ranks(2, [](World& world) {
    Mlp alone;
    set_weights(*alone);
    torch::mse_loss(alone(batch_of(0, 8).x), batch_of(0, 8).y).backward();
    const double norm =
        torch::nn::utils::clip_grad_norm_(alone->parameters(), 0.01);
    Mlp net;
    set_weights(*net);
    DataParallel model(net);
    const Batch data = part_of(batch_of(0, 8), world.rank(), 2);
    torch::mse_loss(model(data.x), data.y).backward();
    EXPECT_NEAR(
        torch::nn::utils::clip_grad_norm_(net->parameters(), 0.01),
        norm,
        1e-5 * norm);
    for (const auto& item : alone->named_parameters()) {
      EXPECT_TRUE(torch::allclose(
          item.value().grad(),
          net->named_parameters()[item.key()].grad(),
          1e-4,
          1e-7));
    }
  });
}

TEST(DataParallelProcesses, EqualsOneProcessWithTheWholeBatch) {
  argosy::testing::run_process_ranks(2, [](World& world) {
    const Mlp alone = trained_alone(5, 8);
    Mlp net;
    net->to(torch::kDouble);
    set_weights(*net, world.rank());
    DataParallel model(net);
    torch::optim::SGD optimizer(
        net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    train(model, optimizer, 5, [&](int step) {
      return part_of(
          batch_of(step, 8, torch::kDouble), world.rank(), world.size());
    });
    expect_close(*net, *alone);
  });
}

} // namespace
} // namespace argosy
