// The rules of adoption: levels, disagreement, half-set sources, ARGOSY_ADOPT.

#include "argosy/world/adopt.h"

#include "tests/world/adopting.h"

namespace argosy::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using State = Finding::State;

const Variables kPlain = {
    {"RANK", "1"},
    {"WORLD_SIZE", "4"},
    {"MASTER_ADDR", "head"},
    {"MASTER_PORT", "2950"}};
const Variables kTorchrun = with(
    kPlain,
    {{"TORCHELASTIC_RUN_ID", "job7"},
     {"LOCAL_RANK", "1"},
     {"LOCAL_WORLD_SIZE", "2"}});
const Variables kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"},
    {"OMPI_COMM_WORLD_SIZE", "3"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
    {"PMIX_NAMESPACE", "191@1"}};
const Variables kSlurm = {
    {"SLURM_JOB_ID", "100"},
    {"SLURM_STEP_ID", "0"},
    {"SLURM_JOB_NAME", "train"},
    {"SLURM_PROCID", "0"},
    {"SLURM_NTASKS", "2"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "0"},
    {"SLURM_NNODES", "2"},
    {"SLURM_STEP_NODELIST", "n[1-2]"},
    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

TEST(Adopt, IsAWorldOfOneWhenNobodySpeaks) {
  const LaunchInfo info = adopted({{"PATH", "/bin"}});
  EXPECT_EQ(info, LaunchInfo{});
  EXPECT_EQ(info.source, "single");
}

TEST(Adopt, TakesEmptyVariablesAsUnset) {
  EXPECT_EQ(adopted({{"RANK", ""}, {"WORLD_SIZE", ""}}).source, "single");
}

TEST(Adopt, TakesTheAddressAloneAsAHint) {
  const Variables hint = {{"MASTER_ADDR", "head"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(adopted(hint).source, "single");
  EXPECT_EQ(adopted(with(kOpenMpi, hint)).store_url, "tcp://head:1234");
  EXPECT_EQ(
      adopted(with(kOpenMpi, hint)).address_exchange, AddressExchange::None);
  EXPECT_EQ(adopted(with(kSlurm, hint)).store_url, "tcp://head:1234");
}

TEST(Adopt, PrefersTheAgentUnderSrun) {
  const Variables both = with(kSlurm, kTorchrun);
  EXPECT_EQ(adopted(both).source, "torchrun");
  EXPECT_EQ(adopted(both).rank, 1);
  EXPECT_EQ(finding_of(both, "slurm").state, State::Outer);
  EXPECT_EQ(finding_of(both, "torchrun").state, State::Adopted);
  EXPECT_EQ(finding_of(both, "env").state, State::Absent);
  EXPECT_EQ(finding_of(both, "openmpi").state, State::Absent);
}

TEST(Adopt, PrefersTheAgentUnderMpirun) {
  const Variables both = with(kOpenMpi, kTorchrun);
  EXPECT_EQ(adopted(both).source, "torchrun");
  EXPECT_EQ(adopted(both).size, 4);
  EXPECT_EQ(finding_of(both, "openmpi").state, State::Outer);
}

TEST(Adopt, PrefersMpirunInAnAllocation) {
  // salloc sets job variables; mpirun's daemons are a step of it.
  const Variables salloc = {
      {"SLURM_JOB_ID", "100"}, {"SLURM_NTASKS", "8"}, {"SLURM_NNODES", "2"}};
  EXPECT_EQ(adopted(with(kOpenMpi, salloc)).source, "openmpi");
  EXPECT_EQ(finding_of(with(kOpenMpi, salloc), "slurm").state, State::Absent);
  EXPECT_EQ(adopted(with(kOpenMpi, kSlurm)).source, "openmpi");
  EXPECT_EQ(finding_of(with(kOpenMpi, kSlurm), "slurm").state, State::Outer);
}

TEST(Adopt, IgnoresWhatIsWrongInAnOuterLevel) {
  const Variables both = with(kTorchrun, with(kSlurm, {{"SLURM_PROCID", "x"}}));
  EXPECT_EQ(adopted(both).source, "torchrun");
  EXPECT_EQ(finding_of(both, "slurm").state, State::Outer);
}

TEST(Adopt, TakesPetBeforeRankInAPyTorchJob) {
  const Variables pod = {
      {"RANK", "1"},
      {"WORLD_SIZE", "2"},
      {"MASTER_ADDR", "job-master-0"},
      {"MASTER_PORT", "23456"},
      {"PET_NODE_RANK", "1"},
      {"PET_NNODES", "2"},
      {"PET_NPROC_PER_NODE", "1"}};
  EXPECT_EQ(adopted(pod).source, "pet");
  EXPECT_EQ(adopted(pod).store_url, "tcp://job-master-0:23456");
  for (const char* processes : {"4", "auto", "gpu"}) {
    EXPECT_THAT(
        refusal(with(pod, {{"PET_NPROC_PER_NODE", processes}})),
        AllOf(HasSubstr("PET_NPROC_PER_NODE="), HasSubstr("argosy run")));
  }
  // The agent inside the pod made processes of it.
  EXPECT_EQ(adopted(with(pod, kTorchrun)).source, "torchrun");
}

TEST(Adopt, AcceptsSourcesThatAgree) {
  const Variables both = with(
      kPlain,
      {{"PADDLE_TRAINER_ID", "1"},
       {"PADDLE_TRAINERS_NUM", "4"},
       {"PADDLE_MASTER", "head:9000"}});
  EXPECT_EQ(adopted(both).source, "env");
  EXPECT_EQ(finding_of(both, "paddle").state, State::Complete);
}

TEST(Adopt, RefusesSourcesThatDisagree) {
  const Variables both = with(kPlain, kOpenMpi);
  EXPECT_THAT(
      refusal(both),
      AllOf(
          HasSubstr(
              "[world.adopt] env says worker 1 of 4 (RANK=1 WORLD_SIZE=4"),
          HasSubstr("openmpi says worker 2 of 3 (OMPI_COMM_WORLD_RANK=2"),
          HasSubstr("ARGOSY_ADOPT")));
  EXPECT_THROW(adopt(Environment(both)), InvalidArgument);
}

TEST(Adopt, LetsArgosyAdoptSettleIt) {
  Variables both = with(kPlain, kOpenMpi);
  both["ARGOSY_ADOPT"] = "openmpi";
  EXPECT_EQ(adopted(both).rank, 2);
  EXPECT_EQ(finding_of(both, "env").state, State::Complete);
  both["ARGOSY_ADOPT"] = "env";
  EXPECT_EQ(adopted(both).rank, 1);
  both["ARGOSY_ADOPT"] = "single";
  EXPECT_EQ(adopted(both), LaunchInfo{});
}

TEST(Adopt, SuggestsTheNameThatWasMeant) {
  EXPECT_THAT(
      refusal({{"ARGOSY_ADOPT", "openmp"}}),
      AllOf(
          HasSubstr("ARGOSY_ADOPT=openmp"),
          HasSubstr("did you mean openmpi?"),
          HasSubstr("single"),
          HasSubstr("rank-table")));
}

TEST(Adopt, NamesWhatAForcedSourceLacks) {
  EXPECT_THAT(
      refusal({{"ARGOSY_ADOPT", "mpich"}, {"PMI_SIZE", "2"}}),
      AllOf(HasSubstr("ARGOSY_ADOPT=mpich"), HasSubstr("PMI_RANK or PMI_ID")));
  EXPECT_THAT(
      refusal(with(kPlain, {{"ARGOSY_ADOPT", "torchrun"}})),
      HasSubstr("not set: TORCHELASTIC_RUN_ID"));
}

TEST(Adopt, ForcesASourceWhoseMarksSeemedAnothers) {
  Variables batch = with(kSlurm, {{"SLURM_STEP_ID", "4294967291"}});
  EXPECT_EQ(adopted(batch).source, "single");
  batch["ARGOSY_ADOPT"] = "slurm";
  batch["MASTER_ADDR"] = "n1";
  EXPECT_EQ(adopted(batch).size, 2);
}

TEST(Adopt, NamesWhatAHalfSetSourceLacks) {
  EXPECT_THAT(
      refusal({{"RANK", "1"}}),
      AllOf(HasSubstr("RANK=1"), HasSubstr("without WORLD_SIZE")));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "4"}}), HasSubstr("without RANK"));
  EXPECT_THAT(
      refusal({{"TORCHELASTIC_RUN_ID", "x"}}),
      HasSubstr("without RANK, WORLD_SIZE"));
  EXPECT_THAT(
      refusal({{"OMPI_COMM_WORLD_SIZE", "4"}}),
      HasSubstr("without OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(
      refusal({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
      AllOf(HasSubstr("MASTER_ADDR"), HasSubstr("ARGOSY_STORE")));
  EXPECT_EQ(finding_of({{"RANK", "1"}}, "env").state, State::Partial);
}

TEST(Adopt, ChecksWorldSizeAloneAgainstTheOthers) {
  EXPECT_EQ(adopted(with(kSlurm, {{"WORLD_SIZE", "2"}})).source, "slurm");
  EXPECT_EQ(adopted(with(kOpenMpi, {{"WORLD_SIZE", "3"}})).source, "openmpi");
  EXPECT_THAT(
      refusal(with(kSlurm, {{"WORLD_SIZE", "8"}})),
      AllOf(HasSubstr("WORLD_SIZE=8"), HasSubstr("slurm has size 2")));
}

TEST(Adopt, LetsArgosyStoreReplaceTheAddress) {
  const Variables store = {{"ARGOSY_STORE", "etcd://e:2379/job"}};
  const LaunchInfo bare =
      adopted(with({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, store));
  EXPECT_EQ(bare.store_url, "etcd://e:2379/job");
  EXPECT_FALSE(bare.serves_store);
  for (const Variables& source : {kPlain, kTorchrun, kOpenMpi, kSlurm}) {
    EXPECT_EQ(adopted(with(source, store)).store_url, "etcd://e:2379/job");
    EXPECT_EQ(
        adopted(with(source, store)).address_exchange, AddressExchange::None);
  }
  EXPECT_TRUE(
      adopted(with(kSlurm, {{"ARGOSY_STORE", "tcp://a:1"}})).serves_store);
}

} // namespace
} // namespace argosy::testing
