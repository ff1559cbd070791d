// The same program, started by launchers that nobody here wrote, finds the same
// ranks and meets in the same world.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace argosy {
namespace {

using testing::CommandResult;
using ::testing::HasSubstr;
using testing::run_command;

// The lines that ranks 0 to size-1 on `num_nodes` equal nodes print.
std::set<std::string> expected_lines(
    int size, const std::string& source, int num_nodes = 1) {
  std::set<std::string> lines;
  const int local_size = size / num_nodes;
  for (int rank = 0; rank < size; ++rank) {
    lines.insert(str_format(
        "rank {}/{} local {}/{} node {}/{} sum {} by {}",
        rank,
        size,
        rank % local_size,
        local_size,
        rank / local_size,
        num_nodes,
        size * (size + 1) / 2,
        source));
  }
  return lines;
}

// What the ranks printed; the launchers' own lines and prefixes left out.
std::set<std::string> rank_lines(const CommandResult& result) {
  std::set<std::string> lines;
  for (const std::string& line : split(result.output, '\n')) {
    const std::size_t at = line.find("rank ");
    if (at != std::string::npos && line.find(" sum ") != std::string::npos) {
      lines.insert(std::string(trim(line.substr(at))));
    }
  }
  return lines;
}

void expect_world(
    const std::string& command,
    int size,
    const std::string& source,
    int num_nodes = 1) {
  const CommandResult result = run_command(command);
  EXPECT_EQ(rank_lines(result), expected_lines(size, source, num_nodes))
      << command << "\n"
      << result.output;
  EXPECT_TRUE(result.status.success())
      << command << ": " << result.status.text() << "\n"
      << result.output;
}

const std::string kWho = ARGOSY_WHO;

TEST(Launchers, Alone) {
  expect_world(kWho, 1, "single");
}

TEST(Launchers, ArgosyRun) {
  expect_world(str(ARGOSY_COMMAND, " run -n 3 ", kWho), 3, "torchrun");
}

TEST(Launchers, ArgosyRunOnTwoNodesOfLoopback) {
  const ReservedPort port;
  const std::string base = str_format(
      "{} run --nnodes 2 -n 2 --rdzv-backend tcp --rdzv-endpoint 127.0.0.1:{} ",
      ARGOSY_COMMAND,
      port.port());
  expect_world(str(base, kWho, " & ", base, kWho, "; wait"), 4, "torchrun", 2);
}

TEST(Launchers, Torchrun) {
  // Debian's torchrun fails without -r and -t; see its bug with Python 3.11.
  expect_world(
      str("/usr/bin/python3 -m torch.distributed.run --standalone -r 1 -t 1 "
          "--no_python --nproc_per_node 3 ",
          kWho),
      3,
      "torchrun");
}

TEST(Launchers, OpenMpi) {
  const std::string mpirun =
      "mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 ";
  expect_world(mpirun + kWho, 3, "openmpi");
  expect_world(
      str_format(
          "{}-x MASTER_ADDR=127.0.0.1 -x MASTER_PORT={} {}",
          mpirun,
          testing::free_port(),
          kWho),
      3,
      "openmpi");
}

TEST(Launchers, OpenMpiAcrossHostsAsksPmix) {
  expect_world(
      "mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 "
      "-x ARGOSY_EXCHANGE=pmix " +
          kWho,
      3,
      "openmpi");
}

TEST(Launchers, AUsersCommunicator) {
  expect_world(
      str("mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 ",
          ARGOSY_WHO_MPI_PROGRAM),
      3,
      "mpi");
}

TEST(Launchers, Mpich) {
  expect_world("mpiexec.hydra -n 3 " + kWho, 3, "mpich");
}

TEST(Launchers, SlurmOnOneNode) {
  expect_world(
      str_format(
          "{}/tests/integration/with_slurm 1 timeout 40 srun --overcommit -n 3 "
          "{}",
          ARGOSY_SOURCE_DIR,
          kWho),
      3,
      "slurm");
}

TEST(Launchers, SlurmOnTwoNodes) {
  expect_world(
      str_format(
          "{}/tests/integration/with_slurm 2 timeout 40 srun --overcommit -N 2 "
          "-n 4 {}",
          ARGOSY_SOURCE_DIR,
          kWho),
      4,
      "slurm",
      2);
}

TEST(Launchers, ARankTable) {
  const TempDir dir;
  write_file(dir.path() / "table.json", R"({
    "version": "1.0", "server_count": "1", "status": "completed",
    "server_list": [{"server_id": "127.0.0.1", "host_nic_ip": "reserve",
      "device": [
        {"device_id": "0", "device_ip": "192.0.2.1", "rank_id": "0"},
        {"device_id": "1", "device_ip": "192.0.2.2", "rank_id": "1"}]}]})");
  const std::string env = str_format(
      "RANK_TABLE_FILE={} MASTER_PORT={} ",
      (dir.path() / "table.json").string(),
      testing::free_port());
  expect_world(
      str(env, "RANK_ID=0 ", kWho, " & ", env, "RANK_ID=1 ", kWho, "; wait"),
      2,
      "rank-table");
}

// MindSpore's dynamic networking: a scheduler, and workers that do not know
// their ranks. Rank order is a matter of arrival, so only the set is compared.
TEST(Launchers, MindSporesScheduler) {
  const std::string env = str_format(
      "MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT={} MS_WORKER_NUM=2 "
      "MS_TOPO_TIMEOUT=30 ",
      testing::free_port());
  const std::string worker = str("MS_ROLE=MS_WORKER ", env, kWho, " & ");
  const CommandResult result = run_command(
      str(worker, worker, "MS_ROLE=MS_SCHED ", env, kWho, "; wait"));
  EXPECT_EQ(rank_lines(result), expected_lines(2, "mindspore"))
      << result.output;
  EXPECT_THAT(result.output, HasSubstr("scheduler done"));
}

TEST(Launchers, MindSporesSchedulerNoticesASilentWorker) {
  const std::string env = str_format(
      "MS_SCHED_HOST=127.0.0.1 MS_SCHED_PORT={} MS_WORKER_NUM=2 "
      "MS_TOPO_TIMEOUT=30 MS_NODE_TIMEOUT=2 ",
      testing::free_port());
  // The second worker dies once it has met the first.
  const CommandResult result = run_command(
      str(env,
          "MS_NODE_ID=0 MS_ROLE=MS_WORKER ",
          kWho,
          " --stay & ",
          env,
          "MS_NODE_ID=1 MS_ROLE=MS_WORKER ",
          kWho,
          " --die & MS_ROLE=MS_SCHED ",
          env,
          kWho));
  EXPECT_THAT(result.output, HasSubstr("worker 1 of 2 was silent for 2 s"));
}

TEST(Launchers, PaddlesAndFluidsVariables) {
  const ReservedPort port;
  const std::string paddle = str_format(
      "PADDLE_TRAINERS_NUM=2 "
      "PADDLE_TRAINER_ENDPOINTS=127.0.0.1:{},127.0.0.1:6171 ",
      port.port());
  expect_world(
      str_format(
          "{}PADDLE_TRAINER_ID=0 {} & {}PADDLE_TRAINER_ID=1 {}; wait",
          paddle,
          kWho,
          paddle,
          kWho),
      2,
      "paddle");
  const ReservedPort other;
  const std::string fluid = str_format(
      "PADDLE_TRAINER_IPS=127.0.0.1,127.0.0.1 PADDLE_PSERVER_PORT={} "
      "PADDLE_CURRENT_IP=127.0.0.1 ",
      other.port());
  expect_world(
      str_format(
          "{}PADDLE_TRAINER_ID=0 {} & {}PADDLE_TRAINER_ID=1 {}; wait",
          fluid,
          kWho,
          fluid,
          kWho),
      2,
      "fluid");
}

// ---- bad input: one clear error each, within the deadline -------------------

void expect_error(const std::string& command, const std::string& text) {
  const CommandResult result = run_command(command);
  EXPECT_FALSE(result.status.success()) << command;
  EXPECT_THAT(result.output, HasSubstr(text)) << command;
}

TEST(BadLaunch, NamesTheVariable) {
  expect_error("RANK=abc WORLD_SIZE=2 " + kWho, "RANK=abc");
  expect_error("RANK=2 WORLD_SIZE=2 " + kWho, "RANK=2");
  expect_error("RANK=0 WORLD_SIZE=0 " + kWho, "WORLD_SIZE=0");
  expect_error("RANK=0 " + kWho, "WORLD_SIZE");
  expect_error(
      "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=70000 " + kWho,
      "MASTER_PORT=70000");
}

TEST(BadLaunch, AnUnreachableStoreIsNamedWithinTheDeadline) {
  expect_error(
      str_format(
          "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={} "
          "ARGOSY_TIMEOUT=1 {}",
          testing::free_port(),
          kWho),
      "127.0.0.1");
}

TEST(BadLaunch, AnOccupiedPortIsNamed) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, generic, size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, generic, &size), 0);
  const int port = ntohs(address.sin_port);
  expect_error(
      str_format(
          "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={} {}",
          port,
          kWho),
      str("127.0.0.1:", port));
  ::close(listener);
}

} // namespace
} // namespace argosy
