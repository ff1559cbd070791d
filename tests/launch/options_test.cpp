#include "argosy/launch/options.h"

#include <gtest/gtest.h>

#include <csignal>

#include "argosy/common/error.h"
#include "tests/store/expect.h"

namespace argosy::launch {
namespace {

using argosy::testing::message_of;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

RunOptions parse(const Words& words, const Environment& environment = {}) {
  return to_options(parse_command_line(words, environment), 8, 0);
}

std::string refusal(const Words& words, const Environment& environment = {}) {
  return message_of<InvalidArgument>([&] { parse(words, environment); });
}

Environment variable(const char* name, const char* value) {
  Environment environment;
  environment.set(name, value);
  return environment;
}

TEST(RunOptions, HaveTorchrunsDefaults) {
  const RunOptions options = parse({"./train"});
  EXPECT_EQ(options.num_workers, 1);
  EXPECT_EQ(options.max_nodes, 1);
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_EQ(options.role, "default");
  EXPECT_EQ(options.rdzv.backend, RdzvBackend::Static);
  EXPECT_EQ(options.monitor_interval, milliseconds(100));
  EXPECT_EQ(options.grace, milliseconds(30'000));
  EXPECT_THAT(
      options.ending_signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
}

TEST(RunOptions, LeaveWhatFollowsTheProgramToIt) {
  const Words program = {"./train", "--lr", "0.1", "-n", "9", "--", "--help"};
  Words words = {"-n", "4"};
  words.insert(words.end(), program.begin(), program.end());
  EXPECT_EQ(parse(words).program, program);
  EXPECT_EQ(parse(words).num_workers, 4);
  words.insert(words.begin() + 2, "--");
  EXPECT_EQ(parse(words).program, program);
  EXPECT_THAT(parse({"--", "--odd"}).program, ElementsAre("--odd"));
}

TEST(RunOptions, TakeEverySpellingOfAFlag) {
  for (const Words& words :
       {Words{"--nproc-per-node", "3", "x"},
        Words{"--nproc_per_node", "3", "x"},
        Words{"--nproc_per_node=3", "x"},
        Words{"--np=3", "x"},
        Words{"-n3", "x"},
        Words{"-n", "3", "x"}}) {
    EXPECT_EQ(parse(words).num_workers, 3) << words[0];
  }
  // Underscores in values stay.
  EXPECT_EQ(parse({"--rdzv_id=a_b", "x"}).rdzv.run_id, "a_b");
}

TEST(RunOptions, ComeFromPetVariablesUnlessGiven) {
  const Environment pet(
      {{"PET_NPROC_PER_NODE", "5"},
       {"PET_NNODES", "2"},
       {"PET_NODE_RANK", "1"},
       {"PET_MASTER_ADDR", "job-node-0-0.job"},
       {"PET_MASTER_PORT", "29500"},
       {"PET_MAX_RESTARTS", "7"},
       {"PET_REDIRECTS", "3"},
       {"PET_NO_PYTHON", "true"}});
  const RunOptions options = parse({"--max-restarts", "2", "x"}, pet);
  EXPECT_EQ(options.num_workers, 5);
  EXPECT_EQ(options.max_nodes, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.master_addr, "job-node-0-0.job");
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_EQ(options.max_restarts, 2);
  EXPECT_TRUE(options.redirects.out(0) && options.redirects.err(9));
  EXPECT_EQ(options.program_kind, ProgramKind::NoPython);
  const Environment standalone = variable("PET_STANDALONE", "1");
  EXPECT_FALSE(parse({"--master-port", "1", "x"}, standalone).master_port);
}

TEST(RunOptions, CountProcessorsAndDevices) {
  const auto line = [](const char* nproc) {
    return parse_command_line({"-n", nproc, "x"}, {});
  };
  EXPECT_EQ(to_options(line("auto"), 8, 2).num_workers, 2);
  EXPECT_EQ(to_options(line("auto"), 8, 0).num_workers, 8);
  EXPECT_EQ(to_options(line("cpu"), 8, 2).num_workers, 8);
  EXPECT_EQ(to_options(line("gpu"), 8, 2).num_workers, 2);
  EXPECT_THAT(refusal({"-n", "gpu", "x"}), HasSubstr("--nproc-per-node gpu"));
}

TEST(RunOptions, UnderstandRendezvous) {
  const auto rdzv = [](const Words& flags) {
    Words words = flags;
    words.push_back("x");
    return parse(words).rdzv;
  };
  EXPECT_EQ(rdzv({"--rdzv-endpoint", "h"}).endpoint, "h:29400");
  EXPECT_EQ(rdzv({"--rdzv-endpoint", "h"}).backend, RdzvBackend::Tcp);
  EXPECT_EQ(
      rdzv({"--rdzv-backend", "c10d", "--rdzv-endpoint", "h:1"}).backend,
      RdzvBackend::Tcp);
  const RdzvOptions etcd = rdzv({"--rdzv-endpoint", "etcd://h:1/a/b"});
  EXPECT_EQ(etcd.backend, RdzvBackend::Etcd);
  EXPECT_EQ(etcd.endpoint, "h:1/a/b");
  const RdzvOptions conf =
      rdzv({"--rdzv-conf", "timeout=9,last_call_timeout=2,read_timeout=3"});
  EXPECT_EQ(conf.timeout, milliseconds(9'000));
  EXPECT_EQ(conf.last_call, milliseconds(2'000));
  EXPECT_THAT(
      refusal({"--rdzv-backend", "etcd-v2", "--rdzv-endpoint", "h:1", "x"}),
      HasSubstr("etcd-v2"));
}

TEST(RunOptions, KnowWhatAJobOfSeveralNodesNeeds) {
  EXPECT_THAT(
      refusal({"--nnodes", "2", "x"}),
      AllOf(HasSubstr("--nnodes 2"), HasSubstr("--node-rank")));
  const RunOptions options =
      parse({"--nnodes", "2", "--node-rank", "1", "--master-addr", "a", "x"});
  EXPECT_EQ(options.master_port, 29500);
  const RunOptions elastic =
      parse({"--nnodes", "1:4", "--rdzv-endpoint", "h", "x"});
  EXPECT_EQ(elastic.min_nodes, 1);
  EXPECT_EQ(elastic.max_nodes, 4);
}

TEST(RunOptions, NameFlagAndValueInErrors) {
  const std::pair<Words, std::string> cases[] = {
      {{"--nproc_per_nod", "3"}, "did you mean --nproc-per-node?"},
      {{"-z"}, "-z: no such flag"},
      {{"-n", "0", "x"}, "--nproc-per-node 0"},
      {{"-n", "many", "x"}, "--nproc-per-node many"},
      {{"-n"}, "-n: the value is missing"},
      {{"--nnodes", "3:2", "x"}, "--nnodes 3:2"},
      {{"--nnodes", "1", "--node-rank", "1", "x"}, "--node-rank 1"},
      {{"--grace", "soon", "x"}, "--grace soon"},
      {{"-r", "4", "x"}, "--redirects 4"},
      {{"-t", "0:1,2", "x"}, "--tee 0:1,2"},
      {{"--signals-to-handle", "SIGKILL", "x"}, "SIGKILL"},
      {{"--bind-to", "moon", "x"}, "--bind-to moon"},
      {{"--numa-binding", "moon", "x"}, "--numa-binding moon"},
      {{"--env", "novalue", "x"}, "--env novalue"},
      {{"--rdzv-backend", "smoke", "x"}, "--rdzv-backend smoke"},
      {{"--rdzv-endpoint", "h:0", "x"}, "--rdzv-endpoint=h:0"},
      {{"--master-port", "70000", "x"}, "--master-port 70000"},
      {{"--servers", "a:1", "x"}, "--servers and --trainers"},
      {{"-m", "--run-path", "x"}, "only one of"},
      {{"--standalone", "--nnodes", "2", "x"}, "--standalone"},
      {{"-n", "2"}, "no program"},
  };
  for (const auto& [words, expected] : cases) {
    EXPECT_THAT(refusal(words), HasSubstr(expected));
  }
  EXPECT_THAT(
      refusal({"x"}, variable("PET_STANDALONE", "perhaps")),
      HasSubstr("PET_STANDALONE"));
}

TEST(RunOptions, ChooseWhatRestarts) {
  EXPECT_EQ(parse({"x"}).restart_policy, RestartPolicy::Job);
  EXPECT_EQ(
      parse({"--restart_policy=worker", "x"}).restart_policy,
      RestartPolicy::Worker);
  EXPECT_THAT(
      refusal({"--restart-policy", "rank", "x"}),
      HasSubstr("--restart-policy rank: expected job or worker"));
  EXPECT_THAT(
      refusal({"--restart-policy", "worker", "--server-num", "1", "x"}),
      HasSubstr("a job with parameter servers restarts as a whole"));
}

TEST(RunOptions, MapNumaBinding) {
  EXPECT_EQ(parse({"--numa-binding", "node", "x"}).bind_to, BindTo::Numa);
  EXPECT_EQ(parse({"--numa-binding", "exclusive", "x"}).bind_to, BindTo::Core);
  EXPECT_EQ(parse({"--bind-to", "socket", "x"}).bind_to, BindTo::Socket);
}

TEST(ForeignFlags, OfPaddleAreUnderstood) {
  const RunOptions one = parse(
      {"--master=10.0.0.1:6100",
       "--gpus",
       "2,3,5",
       "--job_id",
       "j",
       "--rank",
       "-1",
       "--log_level",
       "DEBUG",
       "--run_mode",
       "collective",
       "x"});
  EXPECT_EQ(one.num_workers, 3);
  EXPECT_EQ(one.env.at("CUDA_VISIBLE_DEVICES"), "2,3,5");
  EXPECT_EQ(one.rdzv.run_id, "j");
  EXPECT_EQ(one.master_addr, "10.0.0.1");
  EXPECT_EQ(one.master_port, 6100);
  const RunOptions two = parse(
      {"--master",
       "node0:6100",
       "--nnodes",
       "2:4",
       "--nproc_per_node",
       "8",
       "--devices",
       "0,1",
       "--host",
       "10.0.0.7",
       "--elastic_level",
       "1",
       "--elastic_timeout",
       "7",
       "x"});
  EXPECT_EQ(two.rdzv.backend, RdzvBackend::Tcp);
  EXPECT_EQ(two.rdzv.endpoint, "node0:6100");
  EXPECT_EQ(two.num_workers, 8);
  EXPECT_EQ(two.local_addr, "10.0.0.7");
  EXPECT_EQ(two.max_restarts, 3);
  EXPECT_EQ(two.rdzv.last_call, milliseconds(7000));
  EXPECT_EQ(
      parse({"--master", "etcd://e:2379/x", "--nnodes", "2", "x"}).rdzv.backend,
      RdzvBackend::Etcd);
  EXPECT_EQ(parse({"--max_restart", "5", "x"}).max_restarts, 5);
  EXPECT_EQ(parse({"--run_mode", "ps", "x"}).num_servers, 1);
}

TEST(ForeignFlags, OfPaddleListHosts) {
  const auto options = [](Words words) {
    words.push_back("x");
    return parse(words);
  };
  const RunOptions here =
      options({"--ips", "198.51.100.1,127.0.0.1", "--start_port", "6200"});
  EXPECT_EQ(here.max_nodes, 2);
  EXPECT_EQ(here.node_rank, 1);
  EXPECT_EQ(here.master_addr, "198.51.100.1");
  EXPECT_EQ(here.master_port, 6200);
  EXPECT_EQ(
      options({"--ips=198.51.100.1,198.51.100.2", "--node_rank=1"}).node_rank,
      1);
  EXPECT_EQ(options({"--ips=127.0.0.1"}).max_nodes, 1);
  EXPECT_THAT(
      refusal({"--ips=198.51.100.1,198.51.100.2", "x"}),
      AllOf(HasSubstr("0 of these"), HasSubstr("--node-rank")));
}

TEST(ForeignFlags, OfMsrunAreUnderstood) {
  const RunOptions one = parse(
      {"--worker_num=4",
       "--local_worker_num=4",
       "--master_port=8118",
       "--node_rank=3",
       "--join=True",
       "--cluster_time_out=300",
       "--bind_core=True",
       "--rank_table_file=t.json",
       "x"});
  EXPECT_EQ(one.num_workers, 4);
  EXPECT_EQ(one.max_nodes, 1);
  EXPECT_EQ(one.rdzv.timeout, milliseconds(300'000));
  EXPECT_EQ(one.bind_to, BindTo::Core);
  EXPECT_EQ(one.env.at("RANK_TABLE_FILE"), "t.json");
  const RunOptions told = parse(
      {"--worker_num=8",
       "--local_worker_num=4",
       "--master_addr=n0",
       "--node_rank=1",
       "--tail_worker_log=0,2",
       "x"});
  EXPECT_EQ(told.max_nodes, 2);
  EXPECT_EQ(told.node_rank, 1);
  EXPECT_EQ(told.master_addr, "n0");
  EXPECT_EQ(told.master_port, 8118);
  EXPECT_EQ(told.shown_local_ranks, (std::set<int>{0, 2}));
  const RunOptions met = parse(
      {"--worker_num=8",
       "--local_worker_num=4",
       "--master_addr=n0",
       "--master_port=9000",
       "--node_rank=-1",
       "x"});
  EXPECT_EQ(met.rdzv.backend, RdzvBackend::Tcp);
  EXPECT_EQ(met.rdzv.endpoint, "n0:9000");
  EXPECT_FALSE(met.node_rank);
  EXPECT_EQ(parse({"--worker_num=3", "x"}).num_workers, 3);
}

TEST(ForeignFlags, PaddlesElasticServerIsAnEtcd) {
  const RunOptions options = parse({"--elastic_server", "n0:2379", "x"});
  EXPECT_EQ(options.rdzv.backend, RdzvBackend::Etcd);
  EXPECT_EQ(options.rdzv.endpoint, "n0:2379");
}

TEST(ForeignFlags, WithoutMeaningAreAnswered) {
  const std::pair<Words, const char*> cases[] = {
      {{"--run_mode", "rpc"}, "expected collective"},
      {{"--elastic_level", "0"}, "--elastic-level 1"},
      {{"--auto_tuner_json", "f"}, "argosy plan"},
      {{"--gpus", "all"}, "0,1,2,3"},
      {{"--join", "False"}, "background"},
      {{"--join", "maybe"}, "True or False"},
      {{"--sim_level", "1"}, "--dry-run"},
      {{"--worker_log_name", "w"}, "--log-names msrun"},
      {{"--worker_num", "5", "--local_worker_num", "2"}, "multiple of"},
      {{"--log_names", "x"}, "torchrun, paddle or msrun"}};
  for (auto [words, answer] : cases) {
    words.push_back("x");
    EXPECT_THAT(refusal(words), HasSubstr(answer)) << words[0];
  }
}

TEST(RunOptions, AFolderForLogsGetsLogs) {
  EXPECT_EQ(parse({"--log_dir", "l", "x"}).tee.everyone, 3);
  EXPECT_EQ(parse({"--log_dir", "l", "-t", "0", "x"}).tee.everyone, 0);
  const RunOptions redirected = parse({"--log_dir", "l", "-r", "1", "x"});
  EXPECT_EQ(redirected.tee.everyone, 0);
  EXPECT_EQ(redirected.redirects.everyone, 1);
  EXPECT_EQ(parse({"x"}).tee.everyone, 0);
  const RunOptions paddle = parse({"--log-names", "paddle", "x"});
  EXPECT_EQ(paddle.log_dir, "log");
  EXPECT_EQ(paddle.tee.everyone, 3);
}

TEST(RunHelp, ShowsEveryFlagOfTorchrun) {
  const std::string help = run_help();
  for (const char* name :
       {"--nnodes",
        "--nproc-per-node",
        "--rdzv-backend",
        "--rdzv-endpoint",
        "--rdzv-id",
        "--rdzv-conf",
        "--standalone",
        "--max-restarts",
        "--monitor-interval",
        "--start-method",
        "--event-log-handler",
        "--role",
        "--module",
        "--no-python",
        "--run-path",
        "--log-dir",
        "--redirects",
        "--tee",
        "--local-ranks-filter",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--local-addr",
        "--logs-specs",
        "--numa-binding",
        "--signals-to-handle",
        "Examples:"}) {
    EXPECT_THAT(help, HasSubstr(name));
  }
}

} // namespace
} // namespace argosy::launch
