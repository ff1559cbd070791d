// Paddle's and MindSpore's launchers, which know roles.

#include "argosy/common/file.h"
#include "tests/world/adopting.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Variables kPaddle = {
    {"PADDLE_TRAINER_ID", "2"},
    {"PADDLE_TRAINERS_NUM", "3"},
    {"PADDLE_TRAINER_ENDPOINTS", "10.0.0.1:6170,10.0.0.2:6170,10.0.0.2:6171"},
    {"PADDLE_CURRENT_ENDPOINT", "10.0.0.2:6171"}};

TEST(Paddle, DerivesTheHostsFromTheEndpoints) {
  const LaunchInfo info = adopted(kPaddle);
  EXPECT_EQ(info.source, "paddle");
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_size, 2);
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_EQ(info.num_nodes, 2);
  EXPECT_EQ(info.current_endpoint, (Endpoint{"10.0.0.2", 6171}));
  EXPECT_EQ(info.worker_endpoints.size(), 3u);
}

TEST(Paddle, MeetsAtTheMasterOrTheFirstEndpoint) {
  EXPECT_EQ(adopted(kPaddle).store_url, "tcp://10.0.0.1:6170");
  Variables more = with(kPaddle, {{"PADDLE_MASTER", "10.0.0.9:99"}});
  EXPECT_EQ(adopted(more).store_url, "tcp://10.0.0.9:99");
  more["MASTER_ADDR"] = "head";
  more["MASTER_PORT"] = "88";
  EXPECT_EQ(adopted(more).store_url, "tcp://head:88");
}

TEST(Paddle, BelievesTheLauncherAboutTheHost) {
  const LaunchInfo info = adopted(with(
      kPaddle, {{"PADDLE_RANK_IN_NODE", "0"}, {"PADDLE_LOCAL_SIZE", "1"}}));
  EXPECT_EQ(info.local_size, 1);
  EXPECT_EQ(info.num_nodes, 3);
}

TEST(Paddle, IsAWorldOfOneForOneTrainer) {
  const LaunchInfo info = adopted({{"PADDLE_TRAINERS_NUM", "1"}});
  EXPECT_EQ(info.source, "paddle");
  EXPECT_EQ(info.size, 1);
  EXPECT_EQ(info.store_url, "");
}

TEST(Paddle, ReadsALongListFromTheBackupFile) {
  const TempDir dir;
  const std::string path = dir.path() / "env.json";
  Variables backup = kPaddle;
  backup.erase("PADDLE_TRAINER_ENDPOINTS");
  backup["PADDLE_BACKUP_ENV_PATH"] = path;
  EXPECT_THAT(refusal(backup), AllOf(HasSubstr(path), HasSubstr("no such")));
  write_file(
      path,
      R"({"PADDLE_TRAINER_ENDPOINTS": "a:1,b:1,10.0.0.2:6171", "X": "y"})");
  EXPECT_EQ(adopted(backup).store_url, "tcp://a:1");
  write_file(path, R"({"PADDLE_TRAINER_ENDPOINTS": 5})");
  EXPECT_THAT(refusal(backup), HasSubstr("/PADDLE_TRAINER_ENDPOINTS is 5"));
  write_file(path, R"({"A": 5, "A": 6})");
  EXPECT_THAT(refusal(backup), HasSubstr("\"A\" is there twice"));
  write_file(path, "{");
  EXPECT_THAT(refusal(backup), HasSubstr("not JSON"));
  write_file(path, "[]");
  EXPECT_THAT(refusal(backup), HasSubstr("not an object"));
}

TEST(Paddle, NamesBadValues) {
  const struct {
    const char* name;
    const char* value;
    const char* message;
  } kBad[] = {
      {"PADDLE_TRAINER_ID", "3", "=3 is not below PADDLE_TRAINERS_NUM=3"},
      {"PADDLE_TRAINER_ID", "1", "is entry 2 of PADDLE_TRAINER_ENDPOINTS"},
      {"PADDLE_TRAINERS_NUM", "4", "but PADDLE_TRAINER_ENDPOINTS lists 3"},
      {"PADDLE_TRAINER_ENDPOINTS", "a:1,b,c:3", "ENDPOINTS=b is not host:port"},
      {"PADDLE_CURRENT_ENDPOINT", "z:1", "ENDPOINT=z:1 is not in PADDLE_"},
      {"PADDLE_MASTER", "x:y", "PADDLE_MASTER=x:y is not"},
      {"TRAINING_ROLE", "PSERVER", "TRAINING_ROLE=PSERVER without"},
  };
  for (const auto& bad : kBad) {
    EXPECT_THAT(
        refusal(with(kPaddle, {{bad.name, bad.value}})),
        AllOf(HasSubstr("[world.adopt] paddle: "), HasSubstr(bad.message)));
  }
  EXPECT_THAT(
      refusal({{"PADDLE_TRAINERS_NUM", "2"}}),
      HasSubstr("PADDLE_TRAINER_ID is not set"));
}

const Variables kServers = {
    {"PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.1:36011,10.0.0.2:36012"},
    {"PADDLE_TRAINERS_NUM", "3"},
    {"PADDLE_TRAINER_ENDPOINTS", "10.0.0.3:1,10.0.0.4:1,10.0.0.5:1"}};

TEST(PaddlePs, CountsTrainersAndServersApart) {
  const LaunchInfo trainer = adopted(with(
      kServers, {{"TRAINING_ROLE", "TRAINER"}, {"PADDLE_TRAINER_ID", "2"}}));
  EXPECT_EQ(trainer.source, "paddle-ps");
  EXPECT_EQ(trainer.role, Role::Worker);
  EXPECT_EQ(trainer.rank, 2);
  EXPECT_EQ(trainer.size, 3);
  EXPECT_EQ(trainer.num_servers, 2);
  const LaunchInfo server = adopted(with(
      kServers,
      {{"TRAINING_ROLE", "PSERVER"},
       {"POD_IP", "10.0.0.2"},
       {"PADDLE_PORT", "36012"}}));
  EXPECT_EQ(server.role, Role::Server);
  EXPECT_EQ(server.rank, 1);
  EXPECT_EQ(server.size, 2);
  EXPECT_EQ(server.num_workers, 3);
  EXPECT_EQ(server.worker_endpoints.size(), 3u);
}

TEST(PaddlePs, LetsTheFirstServerServeTheStore) {
  const Variables gloo = {{"PADDLE_GLOO_HTTP_ENDPOINT", "10.0.0.1:7000"}};
  const Variables server = {
      {"TRAINING_ROLE", "PSERVER"},
      {"POD_IP", "10.0.0.1"},
      {"PADDLE_PORT", "36011"}};
  const Variables trainer = {
      {"TRAINING_ROLE", "TRAINER"}, {"PADDLE_TRAINER_ID", "0"}};
  EXPECT_TRUE(adopted(with(with(kServers, gloo), server)).serves_store);
  EXPECT_FALSE(adopted(with(with(kServers, gloo), trainer)).serves_store);
  EXPECT_EQ(
      adopted(with(with(kServers, gloo), trainer)).store_url,
      "tcp://10.0.0.1:7000");
  EXPECT_EQ(adopted(with(kServers, trainer)).store_url, "");
}

TEST(PaddlePs, KnowsHeterTrainersAndCoordinators) {
  const LaunchInfo heter = adopted(with(
      kServers,
      {{"TRAINING_ROLE", "HETER_TRAINER"},
       {"PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST", "h:1,h:2"},
       {"POD_IP", "h"},
       {"PADDLE_PORT", "2"}}));
  EXPECT_EQ(heter.role, Role::HeterWorker);
  EXPECT_EQ(heter.rank, 1);
  const LaunchInfo coordinator = adopted(with(
      kServers,
      {{"TRAINING_ROLE", "COORDINATOR"},
       {"PADDLE_COORDINATOR_ENDPOINTS", "c:5"}}));
  EXPECT_EQ(coordinator.role, Role::Coordinator);
  EXPECT_EQ(coordinator.current_endpoint, (Endpoint{"c", 5}));
}

TEST(PaddlePs, NamesBadValues) {
  EXPECT_THAT(refusal(kServers), HasSubstr("without TRAINING_ROLE"));
  EXPECT_THAT(
      refusal(with(kServers, {{"TRAINING_ROLE", "BOSS"}})),
      HasSubstr("TRAINING_ROLE=BOSS is not one of TRAINER, PSERVER"));
  EXPECT_THAT(
      refusal(with(kServers, {{"TRAINING_ROLE", "TRAINER"}})),
      HasSubstr("PADDLE_TRAINER_ID is not set"));
  EXPECT_THAT(
      refusal(with(kServers, {{"TRAINING_ROLE", "PSERVER"}})),
      HasSubstr("POD_IP is not set"));
  EXPECT_THAT(
      refusal(with(
          kServers,
          {{"TRAINING_ROLE", "PSERVER"},
           {"POD_IP", "10.0.0.7"},
           {"PADDLE_PORT", "1"}})),
      HasSubstr("POD_IP:PADDLE_PORT=10.0.0.7:1 is not in PADDLE_PSERVERS"));
}

TEST(Fluid, ReadsServersMode) {
  const Variables job = {
      {"PADDLE_PSERVER_IPS", "10.0.0.1,10.0.0.2"},
      {"PADDLE_PSERVER_PORT", "6174"},
      {"PADDLE_TRAINERS", "2"}};
  EXPECT_EQ(adopted(job).source, "single"); // no role: local training
  const LaunchInfo server = adopted(with(
      job,
      {{"PADDLE_TRAINING_ROLE", "PSERVER"},
       {"PADDLE_CURRENT_IP", "10.0.0.2"}}));
  EXPECT_EQ(server.source, "fluid");
  EXPECT_EQ(server.role, Role::Server);
  EXPECT_EQ(server.rank, 1);
  const LaunchInfo trainer = adopted(with(
      job, {{"PADDLE_TRAINING_ROLE", "TRAINER"}, {"PADDLE_TRAINER_ID", "1"}}));
  EXPECT_EQ(trainer.rank, 1);
  EXPECT_EQ(trainer.server_endpoints[1], (Endpoint{"10.0.0.2", 6174}));
  EXPECT_THAT(
      refusal(with(job, {{"PADDLE_TRAINING_ROLE", "PSERVER"}})),
      HasSubstr("PADDLE_CURRENT_IP is not set"));
}

TEST(Fluid, ReadsTrainersMode) {
  const Variables job = {
      {"PADDLE_TRAINER_IPS", "10.0.0.1,10.0.0.2"},
      {"PADDLE_PSERVER_PORT", "6174"},
      {"PADDLE_TRAINER_ID", "1"},
      {"PADDLE_CURRENT_IP", "10.0.0.2"}};
  EXPECT_EQ(adopted(job).store_url, "tcp://10.0.0.1:6174");
  EXPECT_EQ(adopted(job).size, 2);
  EXPECT_THAT(
      refusal(with(job, {{"PADDLE_TRAINER_ID", "2"}})),
      HasSubstr("PADDLE_TRAINER_ID=2 is not an integer in [0, 1]"));
  EXPECT_THAT(
      refusal(with(job, {{"PADDLE_CURRENT_IP", "10.0.0.1"}})),
      HasSubstr("PADDLE_CURRENT_IP=10.0.0.1 but entry 1"));
}

const Variables kMindSpore = {
    {"MS_ROLE", "MS_WORKER"},
    {"MS_SCHED_HOST", "10.0.0.1"},
    {"MS_SCHED_PORT", "8118"},
    {"MS_WORKER_NUM", "4"}};

TEST(MindSpore, TakesTheRankFromTheNodeId) {
  const LaunchInfo info = adopted(
      with(kMindSpore, {{"MS_NODE_ID", "3"}, {"MASTER_ADDR", "other"}}));
  EXPECT_EQ(info.source, "mindspore");
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.size, 4);
  EXPECT_EQ(info.store_url, "tcp://10.0.0.1:8118");
  EXPECT_FALSE(info.serves_store);
  EXPECT_EQ(
      adopted(with(kMindSpore, {{"MS_NODE_ID", "x"}, {"RANK_ID", "0"}})).rank,
      0);
}

TEST(MindSpore, LeavesTheRankToTheScheduler) {
  const LaunchInfo info = adopted(with(kMindSpore, {{"MS_NODE_ID", "uuid-7"}}));
  EXPECT_TRUE(info.rank_by_arrival);
  EXPECT_EQ(info.rank, -1);
  EXPECT_EQ(info.node_id, "uuid-7");
}

TEST(MindSpore, LetsTheSchedulerServe) {
  const LaunchInfo info = adopted(with(kMindSpore, {{"MS_ROLE", "MS_SCHED"}}));
  EXPECT_EQ(info.role, Role::Scheduler);
  EXPECT_TRUE(info.serves_store);
  EXPECT_EQ(info.num_workers, 4);
  const LaunchInfo server = adopted(with(
      kMindSpore,
      {{"MS_ROLE", "MS_PSERVER"},
       {"MS_SERVER_NUM", "2"},
       {"MS_NODE_ID", "1"}}));
  EXPECT_EQ(server.role, Role::Server);
  EXPECT_EQ(server.size, 2);
}

TEST(MindSpore, NamesBadValues) {
  const struct {
    const char* name;
    const char* value;
    const char* message;
  } kBad[] = {
      {"MS_ROLE", "BOSS", "MS_ROLE=BOSS is not one of MS_SCHED, MS_WORKER"},
      {"MS_SCHED_PORT", "80", "MS_SCHED_PORT=80 is not an integer in [1024"},
      {"MS_WORKER_NUM", "0", "MS_WORKER_NUM=0 is not"},
      {"MS_NODE_ID", "4", "MS_NODE_ID=4 is not an integer in [0, 3]"},
      {"RANK_SIZE", "2", "RANK_SIZE=2 but MS_WORKER_NUM=4"},
      {"MS_SCHED_HOST", "", "without MS_SCHED_HOST"},
  };
  for (const auto& bad : kBad) {
    EXPECT_THAT(
        refusal(with(kMindSpore, {{bad.name, bad.value}})),
        AllOf(HasSubstr("[world.adopt] mindspore: "), HasSubstr(bad.message)));
  }
}

} // namespace
} // namespace argosy::testing
