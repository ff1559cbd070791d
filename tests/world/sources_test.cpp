// Each source: what it makes of a good environment, and of bad values.

#include "tests/world/adopting.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Variables kTorchrun = {
    {"TORCHELASTIC_RUN_ID", "job7"},
    {"TORCHELASTIC_RESTART_COUNT", "2"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
    {"RANK", "4"},
    {"WORLD_SIZE", "6"},
    {"LOCAL_RANK", "0"},
    {"LOCAL_WORLD_SIZE", "2"},
    {"GROUP_RANK", "2"},
    {"GROUP_WORLD_SIZE", "3"},
    {"MASTER_ADDR", "10.0.0.1"},
    {"MASTER_PORT", "29400"}};

TEST(Torchrun, IsReadWhole) {
  const LaunchInfo info = adopted(kTorchrun);
  LaunchInfo expected{
      .source = "torchrun",
      .rank = 4,
      .size = 6,
      .local_rank = 0,
      .local_size = 2,
      .node_rank = 2,
      .num_nodes = 3,
      .num_workers = 6,
      .store_url = "c10d://10.0.0.1:29400",
      .run_id = "job7",
      .restart_count = 2};
  EXPECT_EQ(info, expected);
}

TEST(Torchrun, LetsRankZeroServeUnlessTheAgentDoes) {
  Variables first = with(kTorchrun, {{"RANK", "0"}, {"GROUP_RANK", "0"}});
  EXPECT_FALSE(adopted(first).serves_store);
  first["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_TRUE(adopted(first).serves_store);
}

TEST(Torchrun, NamesBadValues) {
  const struct {
    const char* name;
    const char* value;
    const char* message;
  } kBad[] = {
      {"RANK", "abc", "RANK=abc is not an integer >= 0"},
      {"RANK", "-1", "RANK=-1 is not an integer >= 0"},
      {"RANK", "6", "RANK=6 is not below WORLD_SIZE=6"},
      {"WORLD_SIZE", "0", "WORLD_SIZE=0 is not an integer >= 1"},
      {"WORLD_SIZE", "2.5", "WORLD_SIZE=2.5 is not"},
      {"LOCAL_RANK", "2", "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"},
      {"LOCAL_WORLD_SIZE", "9", "LOCAL_WORLD_SIZE=9 is more than the 6 ranks"},
      {"GROUP_RANK", "3", "GROUP_RANK=3 is not below GROUP_WORLD_SIZE=3"},
      {"MASTER_PORT", "0", "MASTER_PORT=0 is not an integer in [1, 65535]"},
      {"MASTER_PORT", "70000", "MASTER_PORT=70000 is not"},
      {"MASTER_PORT", "abc", "MASTER_PORT=abc is not"},
      {"TORCHELASTIC_USE_AGENT_STORE", "maybe", "USE_AGENT_STORE=maybe"},
  };
  for (const auto& bad : kBad) {
    EXPECT_THAT(
        refusal(with(kTorchrun, {{bad.name, bad.value}})),
        AllOf(HasSubstr("[world.adopt] torchrun: "), HasSubstr(bad.message)));
  }
}

TEST(Env, GuessesNothingAboutTheHost) {
  const LaunchInfo info =
      adopted({{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "::1"}});
  EXPECT_EQ(info.source, "env");
  EXPECT_FALSE(info.knows_local);
  EXPECT_TRUE(info.serves_store);
  EXPECT_EQ(info.store_url, "tcp://[::1]:29500");
  EXPECT_EQ(adopted({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).store_url, "");
}

const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "3"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
    {"PMIX_NAMESPACE", "191@1"}};

TEST(OpenMpi, MeetsThroughAFileOnOneHost) {
  const LaunchInfo info = adopted(kOpenMpi);
  EXPECT_EQ(info.source, "openmpi");
  EXPECT_EQ(info.address_exchange, AddressExchange::LocalFile);
  EXPECT_EQ(info.run_id, "openmpi-191@1");
  EXPECT_EQ(info.store_url, "");
  EXPECT_EQ(info.num_nodes, 1);
}

TEST(OpenMpi, MeetsThroughPmixOnSeveral) {
  const Variables hosts = {
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  const LaunchInfo info = adopted(with(kOpenMpi, hosts));
  EXPECT_EQ(info.address_exchange, AddressExchange::Pmix);
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_EQ(info.num_nodes, 2);
  EXPECT_THAT(refusal(hosts), HasSubstr("set MASTER_ADDR or ARGOSY_STORE"));
}

TEST(OpenMpi, CanBeToldHowToExchange) {
  EXPECT_EQ(
      adopted(with(kOpenMpi, {{"ARGOSY_EXCHANGE", "pmix"}})).address_exchange,
      AddressExchange::Pmix);
  EXPECT_THAT(
      refusal(with(kOpenMpi, {{"ARGOSY_EXCHANGE", "mail"}})),
      HasSubstr("ARGOSY_EXCHANGE=mail is not one of file, pmi, pmix"));
}

TEST(OpenMpi, KnowsRanksDealtInTurn) {
  // mpirun --map-by node: ranks 0, 2 on one host and 1, 3 on the other.
  const LaunchInfo info = adopted(with(
      kOpenMpi,
      {{"OMPI_COMM_WORLD_SIZE", "4"},
       {"OMPI_COMM_WORLD_RANK", "1"},
       {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_TRUE(info.knows_local);
  EXPECT_EQ(info.node_rank, 1);
}

TEST(Mpich, IsReadFromHydra) {
  const Variables hydra = {
      {"PMI_RANK", "1"},
      {"PMI_SIZE", "2"},
      {"PMI_FD", "6"},
      {"MPI_LOCALRANKID", "1"},
      {"MPI_LOCALNRANKS", "2"}};
  EXPECT_EQ(adopted(hydra).address_exchange, AddressExchange::LocalFile);
  EXPECT_EQ(adopted(hydra).run_id, "mpich-77.1234");
  const LaunchInfo hosts = adopted(
      with(hydra, {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}}));
  EXPECT_EQ(hosts.address_exchange, AddressExchange::Pmi);
  EXPECT_EQ(hosts.run_id, ""); // the local launcher's differs between hosts
  EXPECT_EQ(hosts.num_nodes, 2);
}

TEST(Mpich, IsNotSrunWithPmi2) {
  const Variables srun = {
      {"PMI_RANK", "1"},
      {"PMI_SIZE", "2"},
      {"PMI_FD", "6"},
      {"SLURM_STEP_ID", "0"},
      {"SLURM_JOB_ID", "5"},
      {"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "2"},
      {"SLURM_NNODES", "1"},
      {"SLURM_NODEID", "0"},
      {"SLURM_LOCALID", "1"}};
  EXPECT_EQ(adopted(srun).source, "slurm");
}

TEST(Mvapich, IsRead) {
  const Variables mvapich = {
      {"MV2_COMM_WORLD_RANK", "0"},
      {"MV2_COMM_WORLD_SIZE", "2"},
      {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
      {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
      {"MPIRUN_ID", "900"}};
  EXPECT_EQ(adopted(mvapich).source, "mvapich");
  EXPECT_EQ(adopted(mvapich).run_id, "mvapich-900");
  EXPECT_TRUE(adopted(mvapich).serves_store);
}

const Variables kSlurm = {
    {"SLURM_JOB_ID", "100"},
    {"SLURM_STEP_ID", "2"},
    {"SLURM_JOB_NAME", "train"},
    {"SLURM_PROCID", "6"},
    {"SLURM_NTASKS", "7"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "3"},
    {"SLURM_NNODES", "4"},
    {"SLURM_STEP_NODELIST", "n[08-10],m1"},
    {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
    {"SLURM_RESTART_COUNT", "1"}};

TEST(Slurm, IsReadInAStep) {
  const LaunchInfo info = adopted(kSlurm);
  EXPECT_EQ(info.source, "slurm");
  EXPECT_EQ(info.rank, 6);
  EXPECT_EQ(info.size, 7);
  EXPECT_EQ(info.local_size, 1);
  EXPECT_EQ(info.node_rank, 3);
  EXPECT_EQ(info.num_nodes, 4);
  EXPECT_EQ(info.store_url, "tcp://n08:18102"); // 15000 + 100 * 31 + 2
  EXPECT_EQ(info.run_id, "slurm-100.2");
  EXPECT_EQ(info.restart_count, 1);
}

TEST(Slurm, UsesLoopbackOnOneHost) {
  const LaunchInfo info = adopted(
      {{"SLURM_JOB_ID", "100"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_PROCID", "0"},
       {"SLURM_STEP_NUM_TASKS", "2"},
       {"SLURM_NTASKS", "9"},
       {"SLURM_LOCALID", "0"},
       {"SLURM_NODEID", "0"},
       {"SLURM_NNODES", "1"}});
  EXPECT_EQ(info.store_url, "tcp://127.0.0.1:18100");
  EXPECT_EQ(info.size, 2);
  EXPECT_EQ(info.local_size, 2);
}

TEST(Slurm, CountsOnlyStepsOfSrun) {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  EXPECT_EQ(adopted(batch).source, "single");
  EXPECT_THAT(finding_of(batch, "slurm").reason, HasSubstr("SLURM_STEP_ID"));
  batch["SLURM_STEP_ID"] = "4294967291";
  EXPECT_EQ(adopted(batch).source, "single");
}

TEST(Slurm, AsksWhatAShellIsMeantToBe) {
  Variables shell = with(kSlurm, {{"SLURM_PTY_PORT", "39625"}});
  EXPECT_THAT(
      refusal(shell),
      AllOf(HasSubstr("SLURM_PTY_PORT=39625"), HasSubstr("ARGOSY_ADOPT")));
  shell["ARGOSY_ADOPT"] = "slurm";
  EXPECT_EQ(adopted(shell).size, 7);
  shell["ARGOSY_ADOPT"] = "single";
  EXPECT_EQ(adopted(shell).size, 1);
  // Steps of a salloc, and `srun bash train.sh`, are ranks like others.
  for (const char* name : {"interactive", "bash"}) {
    EXPECT_EQ(adopted(with(kSlurm, {{"SLURM_JOB_NAME", name}})).size, 7);
  }
}

TEST(Slurm, NamesBadValues) {
  EXPECT_THAT(
      refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", "n[1-"}})),
      HasSubstr("SLURM_STEP_NODELIST=n[1- is not"));
  EXPECT_THAT(
      refusal(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(y3)"}})),
      HasSubstr("SLURM_STEP_TASKS_PER_NODE=2(y3) is not"));
  EXPECT_THAT(
      refusal(with(kSlurm, {{"SLURM_NODEID", "4"}})),
      HasSubstr("SLURM_NODEID=4 is not below SLURM_NNODES=4"));
  EXPECT_THAT(
      refusal(with(kSlurm, {{"SLURM_LOCALID", "1"}})),
      AllOf(HasSubstr("SLURM_LOCALID=1"), HasSubstr("2(x3),1")));
}

TEST(Lsf, TakesTheFirstComputeHost) {
  const Variables jsrun = {
      {"JSM_NAMESPACE_RANK", "3"},
      {"JSM_NAMESPACE_SIZE", "4"},
      {"JSM_NAMESPACE_LOCAL_RANK", "1"},
      {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
      {"LSB_JOBID", "17001"},
      {"LSB_MCPU_HOSTS", "batch5 1 h33 42 h34 42"}};
  const LaunchInfo info = adopted(jsrun);
  EXPECT_EQ(info.source, "lsf");
  EXPECT_EQ(info.store_url, "tcp://h33:15001");
  EXPECT_EQ(info.node_rank, 1);
  EXPECT_THAT(
      refusal(with(jsrun, {{"LSB_MCPU_HOSTS", ""}})),
      HasSubstr("LSB_MCPU_HOSTS"));
}

TEST(Pet, CountsPods) {
  const Variables pod = {
      {"PET_NNODES", "3"},
      {"PET_NODE_RANK", "2"},
      {"PET_NPROC_PER_NODE", "1"},
      {"PET_MASTER_ADDR", "job-node-0-0.job"},
      {"PET_MASTER_PORT", "29501"},
      {"JOB_COMPLETION_INDEX", "2"}};
  const LaunchInfo info = adopted(pod);
  EXPECT_EQ(info.source, "pet");
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.num_nodes, 3);
  EXPECT_EQ(info.store_url, "tcp://job-node-0-0.job:29501");
  EXPECT_THAT(
      refusal(with(pod, {{"PET_NNODES", "1:4"}})),
      AllOf(HasSubstr("PET_NNODES=1:4"), HasSubstr("argosy run")));
  EXPECT_EQ(adopted({{"PET_NNODES", "1"}}).size, 1);
}

TEST(Kubernetes, NumbersPodsOfAnIndexedJob) {
  const Variables pod = {
      {"JOB_COMPLETION_INDEX", "1"},
      {"WORLD_SIZE", "3"},
      {"MASTER_ADDR", "job-0.svc"}};
  const LaunchInfo info = adopted(pod);
  EXPECT_EQ(info.source, "kubernetes");
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(info.store_url, "tcp://job-0.svc:29500");
  EXPECT_THAT(
      refusal({{"JOB_COMPLETION_INDEX", "1"}}), HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(
      refusal({{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}}),
      HasSubstr("MASTER_ADDR"));
}

TEST(Kubernetes, ReadsLeaderWorkerSets) {
  const Variables pod = {
      {"LWS_LEADER_ADDRESS", "set-0.set"},
      {"LWS_GROUP_SIZE", "2"},
      {"LWS_WORKER_INDEX", "0"}};
  EXPECT_EQ(adopted(pod).source, "leader-worker-set");
  EXPECT_EQ(adopted(pod).store_url, "tcp://set-0.set:29500");
  EXPECT_TRUE(adopted(pod).serves_store);
  EXPECT_THAT(
      refusal({{"LWS_GROUP_SIZE", "2"}}),
      AllOf(HasSubstr("LWS_WORKER_INDEX"), HasSubstr("LWS_LEADER_ADDRESS")));
}

TEST(Kubernetes, ReadsVolcanoTasks) {
  Variables pod = {
      {"VC_TASK_INDEX", "1"},
      {"VC_WORKER_HOSTS", "j-worker-0.j,j-worker-1.j"},
      {"VC_WORKER_NUM", "2"}};
  EXPECT_EQ(adopted(pod).source, "volcano");
  EXPECT_EQ(adopted(pod).rank, 1);
  EXPECT_EQ(adopted(pod).store_url, "tcp://j-worker-0.j:29500");
  pod["VC_MASTER_HOSTS"] = "j-master-0.j";
  EXPECT_THAT(refusal(pod), HasSubstr("VC_TASK_INDEX=1"));
  pod["HOSTNAME"] = "j-worker-1";
  EXPECT_EQ(adopted(pod).rank, 2);
  EXPECT_EQ(adopted(pod).size, 3);
  EXPECT_EQ(adopted(pod).store_url, "tcp://j-master-0.j:29500");
  EXPECT_THAT(
      refusal(with(pod, {{"VC_WORKER_NUM", "4"}})),
      HasSubstr("VC_WORKER_NUM=4 but VC_WORKER_HOSTS lists 2"));
  EXPECT_THAT(refusal({{"VK_TASK_INDEX", "0"}}), HasSubstr("VC_<TASK>_HOSTS"));
}

} // namespace
} // namespace argosy::testing
