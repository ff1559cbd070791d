// One suite for all backends, through the public operations: values against one
// process for all sizes and types, messages, disagreements, aborts, and ranks
// that die or hang.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "argosy/comm/call_timeout.h"
#include "argosy/comm/ops.h"
#include "argosy/common/environment.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/comm/collective_checks.h"
#include "tests/support/thrown.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using argosy::testing::thrown_by;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- Values -----------------------------------------------------------------

void equal_one_process_for_every_size(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  for (const std::int64_t count : {0, 1, 7, 1024, 1 << 20}) {
    SCOPED_TRACE(count);
    check_reductions(world, group, count, torch::kFloat);
    check_copies(world, group, count, torch::kFloat);
  }
  barrier(group);
}

void equal_one_process_for_every_type(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  for (const c10::ScalarType type :
       {torch::kDouble,
        torch::kHalf,
        torch::kBFloat16,
        torch::kChar,
        torch::kByte,
        torch::kShort,
        torch::kInt,
        torch::kLong,
        torch::kComplexFloat,
        torch::kComplexDouble}) {
    for (const std::int64_t count : {3, 3000}) {
      SCOPED_TRACE(argosy::str(type, " ", count));
      check_reductions(world, group, count, type);
      check_copies(world, group, count, type);
    }
  }
  check_copies(world, group, 5, torch::kBool);
}

void reduce_as_torch_does(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  const int n = world.size();
  for (const std::int64_t count : {6, 6000}) {
    const at::Tensor all = everybodys(n, {count}, torch::kInt);
    const auto reduced = [&](ReduceOp op) {
      at::Tensor mine = all[world.rank()].clone();
      all_reduce(mine, op, group);
      return mine;
    };
    EXPECT_TRUE(torch::equal(reduced(ReduceOp::MAX), all.amax(0)));
    EXPECT_TRUE(torch::equal(reduced(ReduceOp::MIN), all.amin(0)));
    EXPECT_TRUE(
        torch::equal(reduced(ReduceOp::PROD), all.prod(0).to(torch::kInt)));
    EXPECT_TRUE(torch::equal(
        reduced(ReduceOp::AVG),
        torch::div(all.sum(0), n, "trunc").to(torch::kInt)));
    at::Tensor bits = all[0].clone();
    for (int rank = 1; rank < n; ++rank) {
      bits.bitwise_or_(all[rank]);
    }
    EXPECT_TRUE(torch::equal(reduced(ReduceOp::BOR), bits));
  }
  at::Tensor flag = torch::full({1}, world.rank() == n - 1, torch::kBool);
  all_reduce(flag, ReduceOp::MAX, group);
  EXPECT_TRUE(flag.item<bool>());
}

// Bits that depend on the order of additions: the same as of rank order.
void add_in_rank_order(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  for (const std::int64_t count : {100, 100003}) {
    const auto given = [&](int rank) {
      return 1.0f / (torch::arange(count) % 977 + 1.5f + 100 * rank);
    };
    at::Tensor sum = given(0);
    for (int rank = 1; rank < world.size(); ++rank) {
      sum += given(rank);
    }
    at::Tensor mine = given(world.rank());
    all_reduce(mine, ReduceOp::SUM, group);
    EXPECT_TRUE(torch::equal(mine, sum));
  }
}

void take_tensors_that_are_not_contiguous(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  const int n = world.size();
  at::Tensor base = torch::zeros({40, 60});
  at::Tensor columns = base.slice(1, 0, 60, 2);
  columns.fill_(world.rank() + 1);
  all_reduce(columns, ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(
      base.slice(1, 0, 60, 2),
      torch::full({40, 30}, static_cast<float>(n * (n + 1) / 2))));
  EXPECT_TRUE(torch::equal(base.slice(1, 1, 60, 2), torch::zeros({40, 30})))
      << "what lies between stays";
  const at::Tensor all = everybodys(n, {4, 6}, torch::kFloat);
  Tensors list;
  all_gather(list, all[world.rank()].t(), group);
  EXPECT_TRUE(torch::equal(torch::stack(list), all.transpose(1, 2)));
}

// Rank r sends 100 (p + r) rows with the value 10 r + p to rank p.
void exchange_uneven_parts(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  const int n = world.size();
  const int rank = world.rank();
  for (const int rows : {1, 400}) {
    Tensors in;
    Tensors out;
    Tensors expected;
    std::vector<std::int64_t> splits;
    for (int peer = 0; peer < n; ++peer) {
      splits.push_back(rows * (peer + rank));
      in.push_back(torch::full({splits.back(), 2}, 10.0f * rank + peer));
      expected.push_back(torch::full({splits.back(), 2}, 10.0f * peer + rank));
      out.push_back(torch::empty_like(in.back()));
    }
    alltoall({.out = out, .in = in}, group);
    for (int peer = 0; peer < n; ++peer) {
      EXPECT_TRUE(torch::equal(out[peer], expected[peer]));
    }
    at::Tensor whole = torch::empty_like(torch::cat(in));
    alltoall_single(
        whole, torch::cat(in), {.out = splits, .in = splits}, group);
    EXPECT_TRUE(torch::equal(whole, torch::cat(expected)));
  }
}

void keep_the_order_of_asynchronous_work(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  Tensors tensors;
  std::vector<WorkPtr> works;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(torch::full({i * 200}, i + world.rank()));
    works.push_back(all_reduce(tensors.back(), ReduceOp::SUM, group, false));
  }
  const int n = world.size();
  for (int i = 0; i < 20; ++i) {
    wait(works[i]);
    EXPECT_TRUE(torch::equal(
        tensors[i], torch::full({i * 200}, n * i + n * (n - 1) / 2)));
  }
}

// ---- Messages ---------------------------------------------------------------

void go_around_the_ring(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  const int n = world.size();
  const int next = (world.rank() + 1) % n;
  const int before = (world.rank() + n - 1) % n;
  for (const std::int64_t count : {0, 1, 7, 1024, 1 << 20}) {
    const at::Tensor all = everybodys(n, {count}, torch::kFloat);
    at::Tensor in = torch::empty({count});
    for (const auto& work : batch_isend_irecv(
             {P2POp(&isend, all[world.rank()], next, group),
              P2POp(&irecv, in, before, group)})) {
      work->wait();
    }
    EXPECT_TRUE(torch::equal(in, all[before]));
  }
}

void arrive_in_order_beside_collectives(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  at::Tensor sum = torch::ones({50000});
  const auto work = all_reduce(sum, ReduceOp::SUM, group, false);
  for (int i = 0; i < 10; ++i) {
    const std::int64_t count = i % 2 == 0 ? 3 : 3000;
    if (world.rank() == 0) {
      send(torch::full({count}, i), world.size() - 1, group);
    } else if (world.rank() == world.size() - 1) {
      at::Tensor in = torch::empty({count}, torch::kLong);
      recv(in, 0, group);
      EXPECT_TRUE(torch::equal(in, torch::full({count}, i)));
    }
  }
  work->wait();
  EXPECT_EQ(sum[49999].item<float>(), static_cast<float>(world.size()));
  barrier(group);
}

void of_another_size_fail_on_both_sides(
    World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  if (world.rank() > 1) {
    return;
  }
  const auto text = thrown_by<InvalidArgument>([&] {
    if (world.rank() == 0) {
      send(torch::ones({2000000}), 1, group);
    } else {
      at::Tensor in = torch::empty({2000001});
      recv(in, 0, group);
    }
  });
  EXPECT_THAT(
      text, AllOf(HasSubstr("2000000 float32"), HasSubstr("2000001 float32")));
}

// ---- What goes wrong --------------------------------------------------------

void disagreements_are_named_on_all_ranks(
    World& world, const std::string& backend) {
  const bool differs = world.rank() == world.size() - 1;
  const auto disagreement = [&](const std::function<void(GroupPtr)>& call) {
    const auto group = new_group({}, backend);
    const auto text = thrown_by<InvalidArgument>([&] { call(group); });
    EXPECT_ANY_THROW(barrier(group)) << "the group is of no more use";
    return text;
  };
  EXPECT_THAT(
      disagreement([&](const GroupPtr& group) {
        all_reduce(torch::ones({differs ? 4 : 3}), ReduceOp::SUM, group);
      }),
      AllOf(
          HasSubstr("all_reduce of 3 float32, sum"),
          HasSubstr("all_reduce of 4 float32, sum")));
  EXPECT_THAT(
      disagreement([&](const GroupPtr& group) {
        const auto type = differs ? torch::kInt : torch::kFloat;
        all_reduce(torch::ones({70000}, type), ReduceOp::SUM, group);
      }),
      AllOf(HasSubstr("70000 float32"), HasSubstr("70000 int32")));
  EXPECT_THAT(
      disagreement([&](const GroupPtr& group) {
        if (differs) {
          barrier(group);
        } else {
          broadcast(torch::ones({2}), 0, group);
        }
      }),
      AllOf(HasSubstr("calls barrier"), HasSubstr("calls broadcast of 2")));
  EXPECT_THAT(
      disagreement([&](const GroupPtr& group) {
        broadcast(torch::ones({2}), differs ? 1 : 0, group);
      }),
      AllOf(HasSubstr("root 0"), HasSubstr("root 1")));
  disagreement([&](const GroupPtr& group) {
    const int n = world.size();
    std::vector<std::int64_t> splits(n, 1);
    splits[0] += differs ? 1 : 0;
    alltoall_single(
        torch::empty({n + (differs ? 1 : 0)}),
        torch::empty({n}),
        {.out = splits},
        group);
  });
}

void an_abort_ends_all_ranks(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  barrier(group);
  const auto began = std::chrono::steady_clock::now();
  if (world.rank() == 0) {
    group->abort("disk full");
  }
  EXPECT_THAT(
      thrown_by<PeerLost>(
          [&] { all_reduce(torch::ones({100000}), ReduceOp::SUM, group); }),
      HasSubstr("disk full"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

void who_does_not_come_is_named(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend);
  barrier(group);
  const auto key = [](int rank) { return "seen/" + std::to_string(rank); };
  if (world.rank() == 1) { // stays away, but is there
    for (int rank = 0; rank < world.size(); ++rank) {
      world.store()->get(key(rank == 1 ? 0 : rank));
    }
    return;
  }
  const CallTimeout limit(300ms);
  EXPECT_THAT(
      thrown_by<TimeoutError>(
          [&] { all_reduce(torch::ones({70000}), ReduceOp::SUM, group); }),
      AllOf(
          HasSubstr("rank 1 of group"),
          HasSubstr("all_reduce of 70000 float32, sum")));
  world.store()->set(key(world.rank()), {1});
}

// Before the members have connected, too.
void who_never_comes_is_named(World& world, const std::string& backend) {
  const GroupPtr group = new_group({}, backend, 500ms);
  barrier(); // of the world: then no other rank is late
  const auto key = [&](int rank) { return str("never/", rank, backend); };
  if (world.rank() == 1) { // stays away, but is there
    for (int rank = 0; rank < world.size(); ++rank) {
      world.store()->get(key(rank == 1 ? 0 : rank));
    }
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(
      thrown_by<TimeoutError>([&] { barrier(group); }),
      AllOf(HasSubstr("rank 1 of group"), HasSubstr("within 500 ms")));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 8s) << "of 30 or 60";
  world.store()->set(key(world.rank()), {1});
}

// ---- The suite --------------------------------------------------------------

struct Check {
  const char* name;
  void (*body)(World& world, const std::string& backend);
  int least_ranks = 1;
};

constexpr Check kChecks[] = {
    {"EqualOneProcessForEverySize", equal_one_process_for_every_size},
    {"EqualOneProcessForEveryType", equal_one_process_for_every_type},
    {"ReduceAsTorchDoes", reduce_as_torch_does},
    {"AddInRankOrder", add_in_rank_order},
    {"TakeTensorsThatAreNotContiguous", take_tensors_that_are_not_contiguous},
    {"ExchangeUnevenParts", exchange_uneven_parts},
    {"KeepTheOrderOfAsynchronousWork", keep_the_order_of_asynchronous_work},
    {"MessagesGoAroundTheRing", go_around_the_ring, 2},
    {"MessagesArriveInOrderBesideCollectives",
     arrive_in_order_beside_collectives,
     2},
    {"MessagesOfAnotherSizeFailOnBothSides",
     of_another_size_fail_on_both_sides,
     2},
    {"DisagreementsAreNamedOnAllRanks",
     disagreements_are_named_on_all_ranks,
     2},
    {"AnAbortEndsAllRanks", an_abort_ends_all_ranks, 2},
    {"WhoDoesNotComeIsNamed", who_does_not_come_is_named, 2},
    {"WhoNeverComesIsNamed", who_never_comes_is_named, 2},
};

struct Case {
  std::string backend;
  int size = 1;
  Check check;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.check.name << " of " << one.backend << " on " << one.size;
}

// The one list of backends whose ranks are threads. Under MPI, which has
// started the ranks, its own.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* backend, int size) {
    for (const Check& check : kChecks) {
      if (size >= check.least_ranks) {
        cases.push_back({backend, size, check});
      }
    }
  };
  if (const auto world = current_world()) {
    add("mpi", world->size());
    return cases;
  }
  for (const int size : {1, 2, 3, 4, 7}) {
    add("inproc", size);
    add("gloo", size);
    add("c10d", size);
  }
  return cases;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return argosy::str(
      info.param.check.name, "_", info.param.backend, info.param.size);
}

class Backends : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, Backends, ::testing::ValuesIn(all_cases()), case_name);

TEST_P(Backends, Pass) {
  const Case& one = GetParam();
  const auto body = [&](World& world) { one.check.body(world, one.backend); };
  if (const auto world = current_world()) {
    body(*world);
  } else {
    argosy::testing::run_ranks(one.size, body);
  }
}

// Processes take half a second to start: they run all checks, one after the
// other, each with a group of its own.
class BackendProcesses : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, BackendProcesses, ::testing::Values(2, 3));

TEST_P(BackendProcesses, PassAllChecksOverSharedMemory) {
  argosy::testing::run_process_ranks(GetParam(), [](World& world) {
    for (const Check& check : kChecks) {
      SCOPED_TRACE(check.name);
      check.body(world, "shm");
    }
  });
}

// ---- Processes that die or hang ---------------------------------------------

class DeadProcesses : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(
    All, DeadProcesses, ::testing::Values("shm", "gloo", "c10d"));

TEST_P(DeadProcesses, AKilledOneIsNamed) {
  try {
    argosy::testing::run_process_ranks(3, [](World& world) {
      const auto group = new_group({}, GetParam());
      at::Tensor data = torch::ones({1 << 18});
      auto last = std::chrono::steady_clock::now();
      const std::string text = thrown_by<PeerLost>([&] {
        for (int i = 0;; ++i) {
          if (world.rank() == 1 && i == 5) {
            ::kill(::getpid(), SIGKILL);
          }
          last = std::chrono::steady_clock::now();
          all_reduce(data, ReduceOp::SUM, group);
        }
      });
      EXPECT_THAT(text, HasSubstr("rank 1 of group"));
      EXPECT_LT(std::chrono::steady_clock::now() - last, 3s);
      if (::testing::Test::HasFailure()) {
        throw Error("survivor failed");
      }
    });
    FAIL() << "rank 1 was killed";
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), 1) << failure.what();
  }
}

// It prints what it got, because the parent reports the killed rank alone.
TEST_P(DeadProcesses, OneKilledBeforeItsGroupConnectsIsNamed) {
  std::optional<TempDir> logs;
  if (!Environment::of_process().find("ARGOSY_SPAWN")) {
    logs.emplace(); // in the parent; ranks end without destructors
  }
  try {
    argosy::testing::run_process_ranks(
        2,
        [](World& world) {
          ::signal(SIGTERM, SIG_IGN); // of the parent, when rank 1 is dead
          const auto group = new_group({}, GetParam());
          barrier(); // of the world: rank 0 ignores the signal by now
          if (world.rank() == 1) {
            ::kill(::getpid(), SIGKILL);
          }
          std::cout << thrown_by<PeerLost>([&] { barrier(group); }) << "\n";
        },
        {.log_dir = logs ? logs->path() : ""});
    FAIL() << "rank 1 was killed";
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), 1) << failure.what();
  }
  EXPECT_THAT(
      read_file(logs->path() / "rank0.log").value(),
      HasSubstr("rank 1 of group 1 died before the group was connected"));
}

TEST_P(DeadProcesses, AStoppedOneIsNamed) {
  argosy::testing::run_process_ranks(3, [](World& world) {
    const auto group = new_group({}, GetParam());
    barrier(group);
    if (world.rank() == 1) {
      const std::string pid = std::to_string(::getpid());
      world.store()->set("stopped", {pid.begin(), pid.end()});
      ::kill(::getpid(), SIGSTOP);
    }
    const CallTimeout limit(500ms);
    const auto act = [&] {
      all_reduce(torch::ones({70000}), ReduceOp::SUM, group);
    };
    if (world.rank() == 1) { // in time, or too late
      EXPECT_THROW(act(), Error);
      return;
    }
    EXPECT_THAT(
        thrown_by<TimeoutError>(act),
        AllOf(HasSubstr("rank 1 of group"), HasSubstr("all_reduce of 70000")));
    if (world.rank() == 0) {
      const auto pid = world.store()->get("stopped");
      ::kill(
          static_cast<pid_t>(*parse_int(std::string(pid.begin(), pid.end()))),
          SIGCONT);
    }
  });
}

} // namespace
} // namespace argosy
