#include "argosy/launch/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "argosy/common/error.h"
#include "argosy/launch/membership.h"
#include "argosy/launch/roles.h"
#include "tests/store/expect.h"

namespace argosy::launch {
namespace {

using argosy::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node node(int num_servers, int num_workers, const std::string& address) {
  Node made{.host = "h" + address, .address = address};
  made.num_servers = num_servers;
  made.num_workers = num_workers;
  for (int i = 0; i < num_servers + num_workers; ++i) {
    made.ports.push_back(static_cast<std::uint16_t>(7000 + i));
  }
  return made;
}

NodeAssignment two_nodes(int node_rank) {
  NodeAssignment assignment;
  assignment.run_id = "job";
  assignment.attempt = 1;
  assignment.node_rank = node_rank;
  assignment.nodes = {node(0, 2, "10.0.0.1"), node(0, 3, "10.0.0.2")};
  assignment.master = {"10.0.0.1", 6000};
  return assignment;
}

JobPlan plan_of(
    const RunOptions& options,
    const NodeAssignment& assignment,
    const Environment& inherited = {}) {
  return plan_job(options, assignment, {"/bin/x", "a b"}, {}, inherited, "/l");
}

TEST(JobPlan, GivesTorchrunsVariables) {
  RunOptions options;
  options.max_restarts = 4;
  const JobPlan plan = plan_of(options, two_nodes(1));
  ASSERT_EQ(plan.workers.size(), 3u);
  Variables variables = plan.workers[2].variables;
  const Variables expected = {
      {"RANK", "4"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "3"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", "4"},
      {"ROLE_WORLD_SIZE", "5"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "6000"},
      {"TORCHELASTIC_RESTART_COUNT", "1"},
      {"TORCHELASTIC_MAX_RESTARTS", "4"},
      {"TORCHELASTIC_RUN_ID", "job"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", "/l/attempt_1/2/error.json"},
      {"ARGOSY_FLIGHT_DIR", "/l/attempt_1"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"}};
  for (const auto& [name, value] : expected) {
    EXPECT_EQ(variables[name], value) << name;
  }
}

TEST(JobPlan, GivesPaddlesVariables) {
  Variables variables = plan_of({}, two_nodes(1)).workers[0].variables;
  EXPECT_EQ(variables["PADDLE_TRAINER_ID"], "2");
  EXPECT_EQ(variables["PADDLE_TRAINERS_NUM"], "5");
  EXPECT_EQ(variables["PADDLE_RANK_IN_NODE"], "0");
  EXPECT_EQ(variables["PADDLE_MASTER"], "10.0.0.1:6000");
  EXPECT_EQ(variables["PADDLE_CURRENT_ENDPOINT"], "10.0.0.2:7000");
  EXPECT_EQ(
      variables["PADDLE_TRAINER_ENDPOINTS"],
      "10.0.0.1:7000,10.0.0.1:7001,10.0.0.2:7000,10.0.0.2:7001,10.0.0.2:7002");
  EXPECT_EQ(variables["PADDLE_DISTRI_BACKEND"], "gloo");
}

TEST(JobPlan, LeavesOutEndpointsThatAreTooMany) {
  NodeAssignment assignment;
  assignment.nodes.assign(1, node(0, 9000, "10.0.0.1"));
  const auto workers = local_workers(assignment, "default");
  const Variables variables = paddle_variables(workers[8999], assignment, "");
  EXPECT_EQ(variables.count("PADDLE_TRAINER_ENDPOINTS"), 0u);
  EXPECT_EQ(variables.at("PADDLE_CURRENT_ENDPOINT"), "10.0.0.1:15999");
}

TEST(JobPlan, LeavesAUsersOwnValuesAlone) {
  RunOptions options;
  options.env = {{"MASTER_ADDR", "mine"}};
  const Environment inherited(
      {{"OMP_NUM_THREADS", "3"},
       {"NCCL_ASYNC_ERROR_HANDLING", "0"},
       {"ARGOSY_FLIGHT_DIR", "own"}});
  const Variables variables =
      plan_of(options, two_nodes(0), inherited).workers[0].variables;
  EXPECT_EQ(variables.count("OMP_NUM_THREADS"), 0u);
  EXPECT_EQ(variables.count("NCCL_ASYNC_ERROR_HANDLING"), 0u);
  EXPECT_EQ(variables.count("ARGOSY_FLIGHT_DIR"), 0u);
  EXPECT_EQ(variables.at("MASTER_ADDR"), "mine");
}

// Without the policy, worker 0 serves the store at the same place.
TEST(JobPlan, NamesTheStoreThatTheLauncherServes) {
  RunOptions options;
  EXPECT_FALSE(plan_of(options, two_nodes(1))
                   .workers[0]
                   .variables.contains("ARGOSY_STORE"));
  options.restart_policy = RestartPolicy::Worker;
  Variables variables = plan_of(options, two_nodes(1)).workers[0].variables;
  EXPECT_EQ(variables["ARGOSY_STORE"], "tcp://10.0.0.1:6000?serve=no");
  EXPECT_EQ(variables["ARGOSY_WORKER_RESTARTS"], "0");
  Environment own;
  own.set("ARGOSY_STORE", "etcd://e:2379/x");
  EXPECT_FALSE(plan_of(options, two_nodes(1), own)
                   .workers[0]
                   .variables.contains("ARGOSY_STORE"));
}

TEST(JobPlan, SendsOutputWhereItIsAskedTo) {
  RunOptions options;
  options.redirects = parse_streams("0:3,1:1", "-r");
  options.tee = parse_streams("1:2", "-t");
  options.shown_local_ranks = {0, 1};
  const auto workers = plan_of(options, two_nodes(1)).workers;
  const std::string dir = "/l/attempt_1/";
  EXPECT_EQ(workers[0].out, (StreamPlan{false, dir + "0/stdout.log"}));
  EXPECT_EQ(workers[0].err, (StreamPlan{false, dir + "0/stderr.log"}));
  EXPECT_EQ(workers[1].out, (StreamPlan{false, dir + "1/stdout.log"}));
  EXPECT_EQ(workers[1].err, (StreamPlan{true, dir + "1/stderr.log"}));
  EXPECT_EQ(workers[2].out, (StreamPlan{false, ""})); // not shown
  EXPECT_EQ(workers[1].prefix, "[default1]:");
  EXPECT_EQ(
      line_prefix("<${rank}|${role_name}${local_rank}>", "r", 1, 5), "<5|r1>");
}

TEST(JobPlan, PrintsWhatItWouldStart) {
  std::ostringstream text;
  text << plan_of({}, two_nodes(0));
  EXPECT_THAT(text.str(), HasSubstr("job job, attempt 1, node 0/2, 5 workers"));
  EXPECT_THAT(text.str(), HasSubstr("default 1/5, local 1/2"));
  EXPECT_THAT(text.str(), HasSubstr("run: /bin/x 'a b'"));
  EXPECT_EQ(plan_of({}, two_nodes(0)), plan_of({}, two_nodes(0)));
}

TEST(Roles, StartServersFirst) {
  NodeAssignment assignment;
  assignment.nodes = {node(1, 2, "10.0.0.1"), node(1, 1, "10.0.0.2")};
  assignment.node_rank = 1;
  assignment.master = {"10.0.0.1", 6000};
  const auto workers = plan_of({}, assignment).workers;
  ASSERT_EQ(workers.size(), 2u);
  Variables server = workers[0].variables;
  EXPECT_EQ(server["TRAINING_ROLE"], "PSERVER");
  EXPECT_EQ(server["PADDLE_PORT"], "7000");
  EXPECT_EQ(server.count("RANK"), 0u);
  EXPECT_EQ(server.count("PADDLE_TRAINER_ID"), 0u);
  Variables trainer = workers[1].variables;
  EXPECT_EQ(trainer["TRAINING_ROLE"], "TRAINER");
  EXPECT_EQ(trainer["PADDLE_TRAINER_ID"], "2");
  EXPECT_EQ(trainer["RANK"], "2");
  EXPECT_EQ(trainer["WORLD_SIZE"], "3");
  EXPECT_EQ(trainer["PADDLE_TRAINERS_NUM"], "3");
  EXPECT_EQ(
      trainer["PADDLE_PSERVERS_IP_PORT_LIST"], "10.0.0.1:7000,10.0.0.2:7000");
  EXPECT_EQ(
      trainer["PADDLE_TRAINER_ENDPOINTS"],
      "10.0.0.1:7001,10.0.0.1:7002,10.0.0.2:7001");
  EXPECT_EQ(trainer["POD_IP"], "10.0.0.2");
  // One port and distinct addresses: the first Paddle could say it too.
  EXPECT_EQ(trainer["PADDLE_PSERVER_PORT"], "7000");
  EXPECT_EQ(trainer["PADDLE_PSERVER_IPS"], "10.0.0.1,10.0.0.2");
  EXPECT_EQ(workers[1].error_file, "/l/attempt_0/trainer_0/error.json");
}

TEST(Roles, TakeListedEndpoints) {
  const auto nodes =
      listed_nodes({{"a", 1}, {"b", 1}}, {{"a", 2}, {"a", 3}, {"b", 2}});
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].num_servers, 1);
  EXPECT_EQ(nodes[0].num_workers, 2);
  EXPECT_THAT(nodes[0].ports, ElementsAre(1, 2, 3));
  EXPECT_THAT(
      message_of<InvalidArgument>([] {
        listed_nodes({{"a", 1}, {"b", 1}, {"a", 2}}, {{"a", 3}});
      }),
      HasSubstr("must be adjacent"));
}

Topology cores(int count, int per_socket) {
  Topology topology;
  for (int i = 0; i < count; ++i) {
    topology.push_back(
        {.cpus = {i, i + count}, .numa = i, .socket = i / per_socket});
  }
  return topology;
}

TEST(Binding, SharesCoresEvenly) {
  const auto sets = bind_ranks(cores(5, 5), BindTo::Core, 2);
  EXPECT_THAT(sets[0], ElementsAre(0, 1, 5, 6));
  EXPECT_THAT(sets[1], ElementsAre(2, 3, 4, 7, 8, 9));
  // More ranks than cores: each has one, some share.
  for (const auto& set : bind_ranks(cores(2, 2), BindTo::Core, 5)) {
    EXPECT_EQ(set.size(), 2u);
  }
}

TEST(Binding, GivesWholeDomains) {
  const auto sets = bind_ranks(cores(4, 2), BindTo::Socket, 2);
  EXPECT_THAT(sets[0], ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(sets[1], ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(bind_ranks(cores(4, 2), BindTo::Numa, 2)[1], ElementsAre(2, 6));
  EXPECT_TRUE(bind_ranks(cores(4, 2), BindTo::None, 2)[0].empty());
  EXPECT_FALSE(read_topology().empty());
}

} // namespace
} // namespace argosy::launch
