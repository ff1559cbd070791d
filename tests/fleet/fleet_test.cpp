// Role makers, init, queries, utilities, and what is refused.

#include "argosy/fleet/fleet.h"
#include "argosy/fleet/ps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/rmsprop.h>

#include <sstream>
#include <thread>

#include "argosy/common/environment.h"
#include "argosy/compat/role_makers.h"
#include "argosy/mesh/hybrid_mesh.h"
#include "argosy/optim/adam.h"
#include "argosy/optim/sgd.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/data_ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::fleet {
namespace {

using argosy::testing::refusal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- Role makers ------------------------------------------------------------

TEST(PaddleCloudRoleMaker, ReadsACollectiveWorker) {
  const PaddleCloudRoleMaker role(
      true,
      Environment{
          {"PADDLE_TRAINER_ID", "2"},
          {"PADDLE_TRAINERS_NUM", "3"},
          {"PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:1,10.0.0.2:1,10.0.0.2:2"},
          {"PADDLE_CURRENT_ENDPOINT", "10.0.0.2:2"}});
  EXPECT_TRUE(role.is_collective());
  EXPECT_TRUE(role.is_worker());
  EXPECT_FALSE(role.is_server());
  EXPECT_FALSE(role.is_first_worker());
  EXPECT_EQ(role.worker_index(), 2);
  EXPECT_EQ(role.worker_num(), 3);
  EXPECT_EQ(role.server_num(), 0);
  EXPECT_EQ(role.server_index(), -1);
  EXPECT_EQ(role.node_num(), 2);
  EXPECT_EQ(role.local_rank(), 1);
  EXPECT_THAT(
      role.worker_endpoints(),
      ElementsAre("10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2"));
}

TEST(PaddleCloudRoleMaker, ReadsAnyLaunchersVariables) {
  const PaddleCloudRoleMaker role(
      true,
      Environment{
          {"RANK", "1"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "head"},
          {"MASTER_PORT", "1234"}});
  EXPECT_EQ(role.worker_index(), 1);
  EXPECT_EQ(role.worker_num(), 4);
  EXPECT_THAT(role.worker_endpoints(), IsEmpty());
}

TEST(PaddleCloudRoleMaker, IsOneWorkerWhenNobodyLaunchedIt) {
  for (const bool is_collective : {true, false}) {
    const PaddleCloudRoleMaker role(is_collective, Environment{});
    EXPECT_TRUE(role.is_first_worker());
    EXPECT_EQ(role.worker_num(), 1);
    EXPECT_EQ(role.server_num(), 0);
    EXPECT_THAT(role.worker_endpoints(), ElementsAre("127.0.0.1:6170"));
  }
}

Environment of_servers(std::map<std::string, std::string> more) {
  more.insert(
      {{"PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:1,10.0.0.1:2"},
       {"PADDLE_TRAINERS_NUM", "3"},
       {"PADDLE_TRAINER_ENDPOINTS", "10.0.0.3:1,10.0.0.4:1,10.0.0.5:1"}});
  return more;
}

TEST(PaddleCloudRoleMaker, ReadsWorkersAndServers) {
  const PaddleCloudRoleMaker worker(
      false,
      of_servers({{"TRAINING_ROLE", "TRAINER"}, {"PADDLE_TRAINER_ID", "0"}}));
  EXPECT_TRUE(worker.is_first_worker());
  EXPECT_EQ(worker.worker_num(), 3);
  EXPECT_EQ(worker.server_num(), 2);
  EXPECT_THAT(
      worker.server_endpoints(), ElementsAre("10.0.0.1:1", "10.0.0.1:2"));
  const PaddleCloudRoleMaker server(
      false,
      of_servers(
          {{"TRAINING_ROLE", "PSERVER"},
           {"POD_IP", "10.0.0.1"},
           {"PADDLE_PORT", "2"}}));
  EXPECT_TRUE(server.is_server());
  EXPECT_FALSE(server.is_first_worker());
  EXPECT_EQ(server.server_index(), 1);
  EXPECT_EQ(server.worker_index(), -1);
  EXPECT_EQ(server.role_id(), 1);
  EXPECT_EQ(server.worker_num(), 3);
}

TEST(PaddleCloudRoleMaker, RefusesAnEnvironmentOfTheOtherKind) {
  EXPECT_THAT(
      refusal([] {
        PaddleCloudRoleMaker(
            true,
            of_servers(
                {{"TRAINING_ROLE", "TRAINER"}, {"PADDLE_TRAINER_ID", "1"}}));
      }),
      HasSubstr("[fleet.role_maker] is_collective, but this is worker 1 of a "
                "job with 2 servers, according to paddle-ps"));
  const Environment collective{
      {"PADDLE_TRAINER_ID", "1"},
      {"PADDLE_TRAINERS_NUM", "2"},
      {"PADDLE_TRAINER_ENDPOINTS", "a:1,b:1"}};
  EXPECT_THAT(
      refusal([&] { PaddleCloudRoleMaker(false, collective); }),
      HasSubstr("[fleet.role_maker] 2 workers without servers, according to "
                "paddle: set is_collective, or PADDLE_PSERVERS_IP_PORT_LIST"));
  EXPECT_THAT(
      refusal([] {
        PaddleCloudRoleMaker(
            false, Environment{{"PADDLE_PSERVERS_IP_PORT_LIST", "a:1"}});
      }),
      HasSubstr("TRAINING_ROLE"));
}

TEST(UserDefinedRoleMaker, CountsWorkersByTheirEndpoints) {
  const UserDefinedRoleMaker role(
      {.is_collective = true,
       .current_id = 1,
       .worker_endpoints = {"a:1", "b:1", "b:2"}});
  EXPECT_EQ(role.worker_index(), 1);
  EXPECT_EQ(role.worker_num(), 3);
  EXPECT_EQ(role.node_num(), 2);
  EXPECT_EQ(role.local_rank(), 0);
  EXPECT_EQ(role.info().store_url, "tcp://a:1");
  EXPECT_FALSE(role.info().serves_store);
}

TEST(UserDefinedRoleMaker, KnowsServers) {
  const UserDefinedRoleMaker server(
      {.current_id = 1,
       .role = Role::Server,
       .worker_num = 4,
       .server_endpoints = {"a:1", "a:2"}});
  EXPECT_TRUE(server.is_server());
  EXPECT_EQ(server.server_index(), 1);
  EXPECT_EQ(server.server_num(), 2);
  EXPECT_EQ(server.worker_num(), 4);
  EXPECT_EQ(server.info().current_endpoint, (Endpoint{"a", 2}));
}

TEST(UserDefinedRoleMaker, RefusesContradictions) {
  const struct {
    UserDefinedRole role;
    const char* message;
  } kBad[] = {
      {{.current_id = 2, .worker_num = 2},
       "current_id 2 of 2 of role worker, expected 0 <= current_id < 2"},
      {{}, "worker_num 0 and no worker_endpoints, expected at least one"},
      {{.worker_num = 3, .worker_endpoints = {"a:1"}},
       "worker_num 3 but worker_endpoints lists 1"},
      {{.worker_endpoints = {"a"}}, "worker_endpoints=a is not host:port"},
      {{.role = Role::Scheduler, .worker_num = 1},
       "role scheduler, expected worker or server"},
      {{.is_collective = true, .worker_num = 1, .server_endpoints = {"a:1"}},
       "is_collective, but role is worker and server_endpoints lists 1"},
  };
  for (const auto& bad : kBad) {
    EXPECT_THAT(
        refusal([&] { UserDefinedRoleMaker{bad.role}; }),
        HasSubstr(bad.message));
  }
}

// ---- init and queries -------------------------------------------------------

TEST(FleetInit, EveryRankHasItsOwn) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto fleet = init(true);
    EXPECT_EQ(current_fleet("test"), fleet);
    EXPECT_EQ(worker_index(), world.rank());
    EXPECT_EQ(worker_num(), 3);
    EXPECT_EQ(is_first_worker(), world.rank() == 0);
    EXPECT_TRUE(is_worker());
    EXPECT_FALSE(is_server());
    EXPECT_EQ(server_num(), 0);
    EXPECT_EQ(server_index(), -1);
    EXPECT_EQ(node_num(), 1);
    EXPECT_EQ(local_rank(), world.rank());
    EXPECT_THAT(worker_endpoints(), IsEmpty());
    EXPECT_THAT(server_endpoints(), IsEmpty());
    init_worker();
    barrier_worker();
    stop_worker();
    EXPECT_NE(init(true), fleet) << "a second one takes its place";
    // Further threads of the rank have it, too.
    std::thread([&, bound = current_world()] {
      const WorldScope scope(bound);
      EXPECT_EQ(worker_index(), world.rank());
    }).join();
  });
}

TEST(FleetInit, WorksAlone) {
  std::thread([] {
    const auto fleet = init();
    EXPECT_TRUE(is_first_worker());
    EXPECT_EQ(worker_num(), 1);
    EXPECT_THAT(worker_endpoints(), ElementsAre("127.0.0.1:6170"));
    EXPECT_EQ(util().all_reduce(5), 5);
  }).join();
}

TEST(FleetInit, MeetsAtTheEndpointsOfUserDefinedRoles) {
  const ReservedPort port;
  const std::string first = Endpoint{"127.0.0.1", port.port()}.text();
  const auto worker = [&](int id) {
    init(
        UserDefinedRoleMaker(
            {.is_collective = true,
             .current_id = id,
             .worker_endpoints = {first, "127.0.0.1:1"}}),
        {},
        {.timeout = std::chrono::seconds(30)});
    EXPECT_EQ(worker_index(), id);
    EXPECT_THAT(worker_endpoints(), ElementsAre(first, "127.0.0.1:1"));
    EXPECT_EQ(util().all_reduce(id + 1), 3);
    destroy_process_group();
  };
  std::thread other([&] { worker(1); });
  std::thread([&] { worker(0); }).join();
  other.join();
}

// Ranks differ, and then a layer of before does not fit: neither leaves a mesh
// that layers and samplers would follow.
TEST(FleetInit, AFailedOneLeavesNothingBehind) {
  testing::run_ranks(2, [](World& world) {
    DistributedStrategy split;
    split.hybrid_configs.mp_degree = 2;
    DistributedStrategy other = split;
    if (world.rank() == 1) {
      other.hybrid_configs.mp_degree = 1;
    }
    const auto expect_none = [&] {
      EXPECT_EQ(current_hybrid_mesh(), nullptr);
      EXPECT_THAT(
          refusal([] { worker_index(); }), HasSubstr("call fleet::init()"));
    };
    EXPECT_THAT(
        refusal([&] { init(true, other); }), HasSubstr("different strategies"));
    expect_none();
    const GroupPtr before = group_or_axis(nullptr, "model");
    DistributedStrategy data;
    data.hybrid_configs.dp_degree = 2;
    EXPECT_THAT(
        refusal([&] { init(true, data); }),
        HasSubstr("build layers after fleet::init()"));
    expect_none();
    init(true, split);
    EXPECT_EQ(current_hybrid_mesh()->size_on("model"), 2);
    EXPECT_EQ(current_data_ranks("test"), (DataRanks{0, 1}));
    // What is there stays when a later one fails.
    EXPECT_THAT(
        refusal([&] { init(true, other); }), HasSubstr("different strategies"));
    EXPECT_EQ(current_hybrid_mesh()->size_on("model"), 2);
  });
}

TEST(FleetInit, RefusesWhatCannotBe) {
  EXPECT_THAT(
      refusal([] { worker_index(); }),
      HasSubstr("[fleet.worker_index] call fleet::init() first"));
  EXPECT_THAT(
      refusal([] {
        init(UserDefinedRoleMaker({.is_collective = true, .worker_num = 2}));
      }),
      HasSubstr("[fleet.init] 2 workers without worker_endpoints"));
  EXPECT_THAT(
      refusal([] { init_server(); }),
      HasSubstr("[fleet.init_server] this job has no servers"));
  DistributedStrategy both;
  both.lars = true;
  both.lamb = true;
  EXPECT_THAT(
      refusal([&] { init(true, both); }),
      HasSubstr("lars and lamb exclude each other"));
  argosy::testing::run_ranks(2, [](World& world) {
    EXPECT_THAT(
        refusal([&] {
          init(UserDefinedRoleMaker(
              {.is_collective = true,
               .current_id = 1 - world.rank(),
               .worker_num = 2}));
        }),
        HasSubstr("of 2 by the role maker, but rank"));
  });
}

TEST(FleetInit, RefusesStrategiesThatDifferOnAllRanks) {
  argosy::testing::run_ranks(3, [](World& world) {
    DistributedStrategy strategy;
    strategy.gradient_merge_configs.k_steps = world.rank() == 2 ? 4 : 2;
    EXPECT_THAT(
        refusal([&] { init(true, strategy); }),
        HasSubstr("[fleet.init] workers 0 and 2 have different strategies: "
                  "gradient_merge_configs.k_steps is 2 and 4"));
  });
}

// ---- Utilities --------------------------------------------------------------

TEST(FleetUtil, ReducesNumbersListsAndTensors) {
  argosy::testing::run_ranks(3, [](World& world) {
    init(true);
    const int rank = world.rank();
    EXPECT_EQ(util().all_reduce(rank + 1), 6);
    EXPECT_EQ(util().all_reduce(rank + 1, "max"), 3);
    EXPECT_EQ(util().all_reduce(rank + 1, "min", "all"), 1);
    EXPECT_EQ(util().all_reduce(0.5 * rank), 1.5);
    EXPECT_EQ(util().all_reduce(std::size_t{1} << 40), std::size_t{3} << 40);
    EXPECT_THAT(
        util().all_reduce(std::vector<double>{1.0 * rank, 10}),
        ElementsAre(3, 30));
    EXPECT_THAT(
        util().all_reduce(std::vector<long>{rank, -rank}, "max"),
        ElementsAre(2, 0));
    const at::Tensor own = torch::full({2, 2}, rank + 1);
    EXPECT_TRUE(torch::equal(util().all_reduce(own), torch::full({2, 2}, 6)));
    EXPECT_EQ(own[0][0].item<int>(), rank + 1) << "the input stays";
    util().barrier();
    util().barrier("all");
  });
}

TEST(FleetUtil, GathersObjects) {
  argosy::testing::run_ranks(3, [](World& world) {
    init(true);
    EXPECT_THAT(util().all_gather(world.rank() * 1.5), ElementsAre(0, 1.5, 3));
    EXPECT_THAT(
        util().all_gather(std::string(world.rank(), 'x')),
        ElementsAre("", "x", "xx"));
  });
}

TEST(FleetUtil, DealsOutFilesAndPrintsOnce) {
  argosy::testing::run_ranks(2, [](World& world) {
    init(true);
    const std::vector<std::string> files = {"a", "b", "c"};
    if (world.rank() == 0) {
      EXPECT_THAT(util().get_file_shard(files), ElementsAre("a", "b"));
    } else {
      EXPECT_THAT(util().get_file_shard(files), ElementsAre("c"));
    }
    std::ostringstream out;
    util().print_on_rank("hello", 1, out);
    EXPECT_EQ(out.str(), world.rank() == 1 ? "hello\n" : "");
  });
}

TEST(FleetUtil, RefusesWhatCannotBe) {
  argosy::testing::run_ranks(2, [](World&) {
    init(true);
    EXPECT_THAT(
        refusal([] { util().all_reduce(1, "avg"); }),
        HasSubstr("[fleet.util.all_reduce] mode avg, expected sum, min or "
                  "max"));
    EXPECT_THAT(
        refusal([] { util().barrier("server"); }),
        HasSubstr("[fleet.util.barrier] comm_world server, expected worker or "
                  "all: this job has no servers"));
    EXPECT_THAT(
        refusal([] { util().all_gather(1, "workers"); }),
        HasSubstr("[fleet.util.all_gather] comm_world workers"));
    EXPECT_THAT(
        refusal([] { util().print_on_rank("x", 2); }),
        HasSubstr("[fleet.util.print_on_rank] worker 2 of 2"));
    EXPECT_THAT(
        refusal([] { util().all_reduce(std::numeric_limits<int>::max()); }),
        HasSubstr("4294967294 does not fit the type of the argument"));
  });
}

// ---- Models and optimizers --------------------------------------------------

TEST(FleetModel, TakesAnyKindOfModule) {
  argosy::testing::run_ranks(2, [](World& world) {
    init(true);
    const at::Tensor x = torch::ones({2, 4});
    torch::nn::Linear holder(4, 3);
    auto by_holder = distributed_model(holder);
    auto by_pointer = distributed_model(holder.ptr());
    auto by_any =
        distributed_model(torch::nn::AnyModule(torch::nn::Linear(4, 3)));
    EXPECT_EQ(by_holder(x).sizes(), by_pointer.forward(x).sizes());
    EXPECT_EQ(by_any(x).sizes(), by_holder(x).sizes());
    EXPECT_EQ(by_holder.module().get(), holder.get());
    EXPECT_EQ(
        util().all_reduce(holder->weight.detach()).sum().item<float>(),
        2 * holder->weight.sum().item<float>())
        << "rank " << world.rank();
  });
}

TEST(FleetModel, OutputsOfMixedPrecisionAreFloat32) {
  struct Two : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(4, 3));
    std::pair<at::Tensor, std::vector<at::Tensor>> forward(
        const at::Tensor& x) {
      const at::Tensor y = layer(x);
      seen = y.scalar_type();
      return {y, {y, torch::ones({1}, torch::kInt)}};
    }
    c10::ScalarType seen = torch::kFloat;
  };
  argosy::testing::run_ranks(1, [](World&) {
    DistributedStrategy strategy;
    strategy.amp = true;
    init(true, strategy);
    const auto two = std::make_shared<Two>();
    auto model = distributed_model(two);
    const auto [first, rest] = model(torch::ones({2, 4}));
    EXPECT_EQ(two->seen, torch::kBFloat16);
    EXPECT_EQ(first.scalar_type(), torch::kFloat);
    EXPECT_EQ(rest[0].scalar_type(), torch::kFloat);
    EXPECT_EQ(rest[1].scalar_type(), torch::kInt);
  });
}

template <typename Optimizer, typename Options>
std::string refusal_of(const std::string& json, const Options& options) {
  std::string message;
  argosy::testing::run_ranks(1, [&](World&) {
    message = refusal([&] {
      init(true, DistributedStrategy::from_json(json));
      torch::nn::Linear net(2, 2);
      Optimizer inner(net->parameters(), options);
      distributed_optimizer(inner);
    });
  });
  return message;
}

TEST(FleetOptimizer, RefusesOptimizersThatDoNotFit) {
  using optim::Adam;
  using optim::AdamOptions;
  using optim::SGD;
  using optim::SGDOptions;
  const std::string tag = "[fleet.distributed_optimizer] ";
  EXPECT_THAT(
      refusal_of<Adam>(R"({"lars": true})", AdamOptions()),
      HasSubstr(tag + "lars takes SGD with momentum; the optimizer is Adam"));
  EXPECT_THAT(
      refusal_of<SGD>(R"({"lars": true})", SGDOptions(0.1)),
      HasSubstr("the optimizer is SGD without momentum"));
  EXPECT_THAT(
      refusal_of<SGD>(
          R"({"lars": true})", SGDOptions(0.1).momentum(0.9).nesterov(true)),
      HasSubstr(
          tag + "lars does not support nesterov, which the optimizer uses"));
  EXPECT_THAT(
      refusal_of<SGD>(
          R"({"lars": true})",
          SGDOptions(0.1).momentum(0.9).weight_decay(0.25)),
      HasSubstr(
          tag +
          "the optimizer has weight_decay 0.25, but "
          "lars_configs.lars_weight_decay is 0.0005: expected 0 or "
          "the same"));
  EXPECT_THAT(
      refusal_of<SGD>(
          R"({"lars": true,
              "lars_configs": {"exclude_from_weight_decay": ["bias"]}})",
          SGDOptions(0.1).momentum(0.9)),
      HasSubstr(
          tag +
          "exclude_from_weight_decay selects by name, and a parameter has no "
          "name: call distributed_model() first"));
  EXPECT_THAT(
      refusal_of<SGD>(R"({"lamb": true})", SGDOptions(0.1).momentum(0.9)),
      HasSubstr(
          tag +
          "lamb takes Adam or AdamW; the optimizer is SGD with "
          "momentum"));
  EXPECT_THAT(
      refusal_of<Adam>(R"({"lamb": true})", AdamOptions().amsgrad(true)),
      HasSubstr("lamb does not support amsgrad"));
  EXPECT_THAT(
      refusal_of<Adam>(R"({"dgc": true})", AdamOptions()),
      HasSubstr("dgc takes SGD with momentum; the optimizer is Adam"));
  EXPECT_THAT(
      refusal_of<SGD>(
          R"({"dgc": true})", SGDOptions(0.1).momentum(0.9).nesterov(true)),
      HasSubstr("dgc does not support nesterov"));
  EXPECT_THAT(
      refusal_of<torch::optim::SGD>(
          R"({"amp": true, "amp_configs": {"use_pure_bf16": true}})",
          SGDOptions(0.1)),
      HasSubstr("amp_configs.use_pure_bf16 needs master weights: use an "
                "optimizer of argosy::optim"));
}

TEST(FleetOptimizer, RefusesGroupsOfDifferentMomentumForDgc) {
  argosy::testing::run_ranks(1, [](World&) {
    init(true, DistributedStrategy::from_json(R"({"dgc": true})"));
    torch::nn::Linear net(2, 2);
    optim::SGD inner(
        {torch::optim::OptimizerParamGroup(
             {net->weight},
             std::make_unique<optim::SGDOptions>(
                 optim::SGDOptions(0.1).momentum(0.5))),
         torch::optim::OptimizerParamGroup({net->bias})},
        optim::SGDOptions(0.1).momentum(0.9));
    EXPECT_THAT(
        refusal([&] { distributed_optimizer(inner); }),
        HasSubstr("the optimizer's groups have 0.5 and 0.9"));
  });
}

TEST(FleetOptimizer, DgcNeedsItBeforeBackward) {
  argosy::testing::run_ranks(2, [](World&) {
    init(true, DistributedStrategy::from_json(R"({"dgc": true})"));
    auto model = distributed_model(torch::nn::Linear(2, 2));
    EXPECT_THAT(
        refusal([&] {
          model(torch::ones({1, 2})).sum().backward();
        }),
        HasSubstr("dgc needs the momentum of the optimizer: call "
                  "distributed_optimizer() before backward()"));
  });
}

TEST(FleetOptimizer, SaysWhenItNeedsTheLoss) {
  argosy::testing::run_ranks(1, [](World&) {
    const std::pair<const char*, const char*> kCases[] = {
        {R"({"amp": true})", "[fleet.step] amp scales the loss: call backward"},
        {R"({"adaptive_localsgd": true})",
         "[fleet.step] adaptive_localsgd depends on the loss: call backward"}};
    for (const auto& [json, message] : kCases) {
      init(true, DistributedStrategy::from_json(json));
      torch::nn::Linear net(2, 2);
      auto model = distributed_model(net);
      optim::SGD inner(net->parameters(), optim::SGDOptions(0.1));
      auto optimizer = distributed_optimizer(inner);
      model(torch::ones({1, 2})).sum().backward();
      EXPECT_THAT(
          refusal([&, &its = optimizer] { its.step(); }), HasSubstr(message));
    }
  });
}

TEST(FleetOptimizer, TakesAnotherStrategyUntilThereIsAModel) {
  argosy::testing::run_ranks(2, [](World&) {
    DistributedStrategy merging;
    merging.gradient_merge = true;
    const auto fleet = init(true);
    torch::nn::Linear net(2, 2);
    optim::SGD inner(net->parameters(), optim::SGDOptions(0.1));
    distributed_optimizer(inner, merging);
    EXPECT_TRUE(fleet->strategy().gradient_merge);
    auto model = distributed_model(net);
    EXPECT_NO_THROW(distributed_optimizer(inner, merging));
    EXPECT_THAT(
        refusal([&] { distributed_optimizer(inner, DistributedStrategy()); }),
        HasSubstr("the strategy differs from the model's: gradient_merge is "
                  "true and false. Pass it to init()"));
  });
}

TEST(FleetOptimizer, RatesAreThoseOfWhatSteps) {
  argosy::testing::run_ranks(1, [](World&) {
    init(true, DistributedStrategy::from_json(R"({"lars": true})"));
    torch::nn::Linear net(2, 2);
    optim::SGD inner(net->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    auto optimizer = distributed_optimizer(inner);
    EXPECT_EQ(optimizer.get_lr(), 0.1);
    optimizer.set_lr(0.025);
    EXPECT_EQ(optimizer.get_lr(), 0.025);
    EXPECT_NE(&optimizer.optimizer(), &inner);
  });
}

// ---- Processes --------------------------------------------------------------

// Two processes end with the parameters of one that has both batches.
TEST(FleetProcesses, TrainLikeOne) {
  const auto train = [](const RoleMaker& role) {
    const int rank = role.worker_index();
    DistributedStrategy strategy;
    strategy.gradient_merge = true;
    strategy.gradient_merge_configs.k_steps = 2;
    init(role, strategy);
    torch::nn::Linear net(4, 2);
    {
      const at::NoGradGuard no_grad;
      net->weight.fill_(0.25 + rank);
      net->bias.zero_();
    }
    auto model = distributed_model(net);
    optim::SGD inner(net->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    auto optimizer = distributed_optimizer(inner);
    for (int step = 0; step < 8; ++step) {
      const at::Tensor whole =
          (torch::arange(16.0).reshape({4, 4}) * (step + 1)).fmod(7) / 7;
      optimizer.zero_grad();
      optimizer.minimize(
          model(whole.chunk(role.worker_num())[rank]).pow(2).mean());
    }
    return net->weight.detach().clone();
  };
  argosy::testing::run_process_ranks(2, [&](World&) {
    const at::Tensor ours = train(PaddleCloudRoleMaker(true));
    EXPECT_EQ(worker_num(), 2);
    at::Tensor alone;
    std::thread([&] {
      alone =
          train(UserDefinedRoleMaker({.is_collective = true, .worker_num = 1}));
    }).join();
    EXPECT_TRUE(torch::allclose(ours, alone, 1e-5, 1e-6)) << ours << alone;
    EXPECT_TRUE(torch::equal(
        util().all_reduce(ours, "max"), util().all_reduce(ours, "min")));
  });
}

} // namespace
} // namespace argosy::fleet
