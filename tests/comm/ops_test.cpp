// Collectives on tensors: values against one process, groups, asynchronous
// work, and what goes wrong.

#include "argosy/comm/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <torch/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/compat/stream.h"
#include "argosy/testing/gtest_ranks.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/process_identity.h"
#include "tests/support/refusal.h"

namespace argosy {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The tensors that all ranks have, the same on every rank: row r is rank r's.
at::Tensor everybodys(int size, at::IntArrayRef shape, c10::ScalarType type) {
  std::vector<std::int64_t> sizes = {size};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  std::int64_t count = 1;
  for (const std::int64_t extent : sizes) {
    count *= extent;
  }
  return (torch::arange(count) % 5 + 1).reshape(sizes).to(type);
}

const std::vector<c10::ScalarType> kTypes = {
    torch::kFloat,
    torch::kDouble,
    torch::kHalf,
    torch::kBFloat16,
    torch::kChar,
    torch::kByte,
    torch::kShort,
    torch::kInt,
    torch::kLong,
    torch::kComplexFloat,
    torch::kComplexDouble};

void check_type(
    World& world, c10::ScalarType type, const GroupPtr& group = nullptr) {
  const int n = world.size();
  const at::Tensor all = everybodys(n, {3, 5}, type);
  const at::Tensor sum = all.sum(0).to(type);

  at::Tensor mine = all[world.rank()].clone();
  all_reduce(mine, ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(mine, sum)) << type;

  mine = all[world.rank()].clone();
  reduce(mine, n - 1, ReduceOp::SUM, group);
  EXPECT_TRUE(
      torch::equal(mine, world.rank() == n - 1 ? sum : all[world.rank()]))
      << type;

  mine = all[world.rank()].clone();
  broadcast(mine, n - 1, group);
  EXPECT_TRUE(torch::equal(mine, all[n - 1])) << type;

  at::Tensor gathered = torch::empty_like(all);
  all_gather(gathered, all[world.rank()], group);
  EXPECT_TRUE(torch::equal(gathered, all)) << type;

  const at::Tensor wide = everybodys(n, {n, 4}, type);
  at::Tensor part = torch::empty({4}, wide.options());
  reduce_scatter(part, wide[world.rank()], ReduceOp::SUM, group);
  EXPECT_TRUE(torch::equal(part, wide.sum(0)[world.rank()].to(type))) << type;

  at::Tensor swapped = torch::empty({n, 4}, wide.options());
  alltoall_single(swapped, wide[world.rank()], {}, group);
  EXPECT_TRUE(torch::equal(swapped, wide.select(1, world.rank()))) << type;
}

class Ops : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Ops, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(Ops, EqualOneProcessForEveryType) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    for (const c10::ScalarType type : kTypes) {
      check_type(world, type);
    }
  });
}

TEST(OpsProcesses, EqualOneProcessForEveryType) {
  argosy::testing::run_process_ranks(2, [](World& world) {
    EXPECT_EQ(get_backend(), "shm");
    for (const c10::ScalarType type : kTypes) {
      check_type(world, type);
    }
  });
}

TEST_P(Ops, EqualOneProcessOverC10d) {
  argosy::testing::run_ranks(GetParam(), [](World& world) {
    const auto group = new_group({}, "c10d");
    EXPECT_EQ(get_backend(group), "c10d:gloo");
    for (const c10::ScalarType type : kTypes) {
      check_type(world, type, group);
    }
    barrier(group);
  });
}

TEST(Ops, BackendsGiveTheSameBits) {
  argosy::testing::run_ranks(3, [](World& world) {
    const at::Tensor data =
        1.0f / (torch::arange(100003) % 977 + 1.5f + 100 * world.rank());
    at::Tensor memory = data.clone();
    at::Tensor network = data.clone();
    all_reduce(memory);
    all_reduce(network, ReduceOp::SUM, new_group({}, "c10d"));
    EXPECT_TRUE(torch::equal(memory, network));
  });
}

TEST(Ops, ReduceOpsAndBool) {
  argosy::testing::run_ranks(3, [](World& world) {
    const auto reduced = [&](ReduceOp op) {
      at::Tensor value = torch::full({2}, world.rank() + 2, torch::kInt);
      all_reduce(value, op);
      return value[0].item<int>();
    };
    EXPECT_EQ(reduced(ReduceOp::MAX), 4);
    EXPECT_EQ(reduced(ReduceOp::MIN), 2);
    EXPECT_EQ(reduced(ReduceOp::PROD), 24);
    EXPECT_EQ(reduced(ReduceOp::AVG), 3);
    EXPECT_EQ(reduced(ReduceOp::BOR), 2 | 3 | 4);
    at::Tensor flag = torch::full({1}, world.rank() == 1, torch::kBool);
    all_reduce(flag, ReduceOp::MAX);
    EXPECT_TRUE(flag.item<bool>());
    EXPECT_THROW(all_reduce(torch::ones({1}), ReduceOp::BXOR), InvalidArgument);
  });
}

TEST(Ops, TensorsThatAreNotContiguousEmptyOrOfNoDim) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor base = torch::zeros({4, 6});
    at::Tensor columns = base.slice(1, 0, 6, 2);
    columns.fill_(world.rank() + 1);
    all_reduce(columns);
    EXPECT_TRUE(
        torch::equal(base.slice(1, 0, 6, 2), torch::full({4, 3}, 3.0f)));
    EXPECT_TRUE(torch::equal(base.slice(1, 1, 6, 2), torch::zeros({4, 3})))
        << "what lies between stays";
    at::Tensor scalar = torch::tensor(world.rank() + 1.0f);
    all_reduce(scalar);
    EXPECT_EQ(scalar.item<float>(), 3);
    at::Tensor empty = torch::empty({0, 3});
    all_reduce(empty);
    broadcast(empty, 0);
    at::Tensor rows = torch::empty({0, 3});
    alltoall_single(rows, empty);
  });
}

TEST(Ops, WhatHasNoDenseMemoryIsRefusedWithAHint) {
  argosy::testing::run_ranks(2, [](World&) {
    const auto refusal = [](const at::Tensor& tensor) {
      return argosy::testing::refusal([&] { all_reduce(tensor); });
    };
    EXPECT_THAT(
        refusal({}), HasSubstr("[comm.all_reduce] an undefined tensor"));
    EXPECT_THAT(
        refusal(torch::ones({2}, torch::kMeta)), HasSubstr("a tensor on meta"));
    EXPECT_THAT(
        refusal(torch::ones({2}).to_sparse()),
        AllOf(HasSubstr("layout Sparse"), HasSubstr("to_dense()")));
    const at::Tensor plain = torch::ones({2});
    std::vector<at::Tensor> outs(2);
    EXPECT_THAT(
        argosy::testing::refusal([&] { all_gather(outs, plain); }),
        HasSubstr("[comm.all_gather] an undefined tensor"));
    outs.clear();
    EXPECT_THAT(
        argosy::testing::refusal([&] {
          alltoall({.out = outs, .in = {plain, {}}});
        }),
        HasSubstr("[comm.all_to_all] an undefined tensor"));
  });
}

TEST(Ops, ConjugatesAndNegativesThatLibTorchPutsOff) {
  argosy::testing::run_ranks(2, [](World& world) {
    const at::Tensor z =
        torch::complex(torch::arange(6.0f), torch::arange(6.0f) + world.rank());
    at::Tensor sum = torch::conj(z.clone());
    all_reduce(sum);
    const at::Tensor expected = torch::conj_physical(
        torch::complex(2 * torch::arange(6.0f), 2 * torch::arange(6.0f) + 1));
    EXPECT_TRUE(torch::equal(sum, expected));
    const at::Tensor all = torch::empty({2, 6}, z.options());
    all_gather(all, torch::conj(z)); // into memory without that bit
    EXPECT_TRUE(torch::equal(all.sum(0), expected));
  });
}

TEST(Ops, UnevenSplits) {
  argosy::testing::run_ranks(3, [](World& world) {
    const int rank = world.rank();
    // Rank r sends p + 1 rows with value 10 r + p to rank p.
    std::vector<at::Tensor> parts;
    std::vector<at::Tensor> expected;
    for (int p = 0; p < 3; ++p) {
      parts.push_back(torch::full({p + 1, 2}, 10.0f * rank + p));
      expected.push_back(torch::full({rank + 1, 2}, 10.0f * p + rank));
    }
    at::Tensor out = torch::empty({3 * (rank + 1), 2});
    alltoall_single(
        out,
        torch::cat(parts),
        {.out = {rank + 1, rank + 1, rank + 1}, .in = {1, 2, 3}});
    EXPECT_TRUE(torch::equal(out, torch::cat(expected)));
    out.zero_();
    stream::alltoall_single(
        out,
        torch::cat(parts),
        {.out = {rank + 1, rank + 1, rank + 1}, .in = {1, 2, 3}});
    EXPECT_TRUE(torch::equal(out, torch::cat(expected)));
  });
}

// PyTorch's and Paddle's orders differ, so neither compiles.
template <typename Out, typename In>
concept ExchangedByPosition = requires(Out out, In in) {
  alltoall(out, in);
};
static_assert(!ExchangedByPosition<Tensors&, Tensors&>);
static_assert(!ExchangedByPosition<Tensors&, const Tensors&>);
static_assert(!ExchangedByPosition<const Tensors&, Tensors&>);

TEST(Ops, NothingToSendIsRefused) {
  argosy::testing::run_ranks(2, [](World&) {
    std::vector<at::Tensor> full = {torch::ones({2}), torch::ones({2})};
    EXPECT_THAT(
        argosy::testing::refusal([&] { alltoall({.out = full, .in = {}}); }),
        HasSubstr("expected alltoall({.out = received, .in = sent})"));
  });
}

// Two filled lists look alike; but nobody receives into a computed tensor that
// needs a gradient.
TEST(Ops, ResultsThatNeedAGradientAreNotOverwritten) {
  argosy::testing::run_ranks(2, [](World& world) {
    const at::Tensor x =
        torch::full({2, 2}, float(world.rank() + 1)).requires_grad_();
    std::vector<at::Tensor> in = (x * 2).unbind();
    std::vector<at::Tensor> out = {torch::zeros({2}), torch::zeros({2})};
    EXPECT_THAT(
        argosy::testing::refusal([&] { alltoall({.out = in, .in = out}); }),
        HasSubstr("expected alltoall({.out = received, .in = sent})"));
    EXPECT_THAT(
        argosy::testing::refusal([&] {
          alltoall_single(x * 2, torch::zeros({2, 2}));
        }),
        HasSubstr("expected alltoall_single(out, in)"));
    alltoall({.out = out, .in = in});
    EXPECT_TRUE(torch::equal(out[0], torch::full({2}, 2.0f)));
    EXPECT_TRUE(torch::equal(out[1], torch::full({2}, 4.0f)));
    const torch::NoGradGuard no_grad;
    alltoall({.out = in, .in = out});
    EXPECT_TRUE(
        torch::equal(in[0], torch::full({2}, float(2 * (world.rank() + 1)))));
  });
}

TEST(Ops, AsynchronousWorkKeepsTheOrder) {
  argosy::testing::run_ranks(2, [](World& world) {
    std::vector<at::Tensor> tensors;
    std::vector<WorkPtr> works;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(torch::full({1000}, float(i + world.rank())));
      works.push_back(
          all_reduce(tensors.back(), ReduceOp::SUM, nullptr, false));
    }
    at::Tensor last = torch::ones({1});
    all_reduce(last); // waits for its turn
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(works[i]->is_completed()) << "issued before";
      wait(works[i]);
      EXPECT_EQ(works[i]->exception(), nullptr);
      EXPECT_EQ(tensors[i][999].item<float>(), 2.0f * i + 1);
    }
  });
}

TEST(Groups, NestedOverlappingAndNonMembers) {
  argosy::testing::run_ranks(4, [](World& world) {
    const auto even = new_group({2, 0});
    const auto last = new_group({1, 2, 3});
    const auto alone = new_group({world.size() - 1});
    EXPECT_EQ(even->ranks(), (std::vector<int>{0, 2}));
    EXPECT_EQ(last->get_group_rank(3), 2);
    EXPECT_EQ(last->get_group_rank(0), -1);
    EXPECT_EQ(get_group(even->id()), even);
    const int rank = world.rank();
    EXPECT_EQ(get_rank(last), rank - 1) << "-1 for no member";
    EXPECT_EQ(get_world_size(last), rank == 0 ? -1 : 3);
    EXPECT_EQ(get_rank(nullptr), rank);
    EXPECT_EQ(get_world_size(nullptr), 4);
    const auto sum_in = [&](const GroupPtr& group) {
      at::Tensor value = torch::full({1}, world.rank() + 1);
      all_reduce(value, ReduceOp::SUM, group);
      return value.item<int>();
    };
    if (even->is_member()) {
      EXPECT_EQ(sum_in(even), 1 + 3);
    } else {
      EXPECT_EQ(even->rank(), -1);
      EXPECT_THROW(sum_in(even), InvalidArgument);
    }
    if (last->is_member()) {
      EXPECT_EQ(sum_in(last), 2 + 3 + 4);
      at::Tensor value = torch::full({1}, world.rank());
      broadcast(value, 3, last);
      EXPECT_EQ(value.item<int>(), 3) << "roots are global ranks";
    }
    if (alone->is_member()) {
      EXPECT_EQ(sum_in(alone), 4);
    }
    barrier();
    EXPECT_EQ(get_backend(), "inproc");
    destroy_process_group(even);
    EXPECT_THROW(get_group(even->id()), InvalidArgument);
  });
}

TEST(Groups, BadRanksAreNamed) {
  argosy::testing::run_ranks(2, [](World&) {
    EXPECT_THROW(new_group({0, 2}), InvalidArgument);
    EXPECT_THROW(new_group({-1}), InvalidArgument);
    EXPECT_THROW(new_group({1, 1}), InvalidArgument);
    EXPECT_THROW(new_group({0}, "shmem"), InvalidArgument);
    EXPECT_THROW(get_group(77), InvalidArgument);
  });
  EXPECT_THROW(new_group(), InvalidArgument) << "no world in this thread";
}

// What a rank of two gets that makes a group, rank 0 of both and rank 1 of
// itself, and uses it. Rank `first` makes it first.
std::string difference_on(
    World& world, int first, const std::function<void(const GroupPtr&)>& use) {
  if (world.rank() != first) {
    world.store()->get(str("made by ", first));
  }
  return argosy::testing::refusal([&] {
    const auto group =
        new_group(world.rank() == 0 ? std::vector{0, 1} : std::vector{1});
    world.store()->set(str("made by ", world.rank()), {1});
    use(group);
  });
}

TEST(Groups, ListsThatDifferAreNamedAtOnce) {
  const std::vector<std::function<void(const GroupPtr&)>> uses = {
      [](const GroupPtr& group) { barrier(group); },
      [](const GroupPtr& group) { send(torch::ones({3}), 1, group); }};
  for (const auto& use : uses) {
    const auto began = std::chrono::steady_clock::now();
    argosy::testing::run_ranks(2, [&](World& world) {
      EXPECT_THAT(
          difference_on(world, 0, use),
          AllOf(
              HasSubstr("disagree about group 1"),
              HasSubstr(
                  "rank 0 makes it of ranks [0, 1] with backend \"auto\""),
              HasSubstr("rank 1 of ranks [1] with backend \"auto\"")));
    });
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
  }
  // Rank 1 waits for nobody, and may be done before rank 0 makes the group.
  argosy::testing::run_ranks(2, [&](World& world) {
    const std::string text = difference_on(world, 1, uses[0]);
    if (world.rank() == 0) {
      EXPECT_THAT(
          text,
          AllOf(
              HasSubstr("rank 1 makes it of ranks [1]"),
              HasSubstr("rank 0 of ranks [0, 1]")));
    }
  });
}

TEST(Groups, OneOtherBackendIsNamedToo) {
  argosy::testing::run_ranks(2, [&](World& world) {
    EXPECT_THAT(
        argosy::testing::refusal([&] {
          barrier(new_group({}, world.rank() == 0 ? "gloo" : "inproc"));
        }),
        AllOf(HasSubstr("\"gloo\""), HasSubstr("\"inproc\"")));
  });
}

// ---- Members that do not come to a group's first operation ------------------

TEST(Groups, AMemberThatHasLeftEndsTheWaitForIt) {
  const auto began = std::chrono::steady_clock::now();
  argosy::testing::run_ranks(3, [](World& world) {
    const auto group = new_group({1, 2});
    if (world.rank() == 1) {
      EXPECT_THAT(
          argosy::testing::refusal<PeerLost>([&] { barrier(group); }),
          HasSubstr("rank 2 of group 1 has left the world and never "
                    "came"));
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

TEST(Groups, AMemberWhoseProcessHasEndedEndsTheWaitForIt) {
  pid_t child = -1;
  char name[] = "true";
  char* argv[] = {name, nullptr};
  ASSERT_EQ(::posix_spawnp(&child, name, nullptr, nullptr, argv, environ), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  argosy::testing::run_ranks(2, [&](World& world) {
    const auto group = new_group();
    if (world.rank() == 1) {
      world.store()->get("seen");
      return;
    }
    // As if rank 1 had been that process.
    auto words = split(own_process_identity(), ' ');
    const std::string dead = str(words[0], " ", child, " ", words[2]);
    world.store()->set(process_key(1), {dead.begin(), dead.end()});
    EXPECT_THAT(
        argosy::testing::refusal<PeerLost>([&] { barrier(group); }),
        HasSubstr(
            str("rank 1 of group 1 died before the group was connected: "
                "process ",
                child,
                " has ended")));
    world.store()->set("seen", {1});
  });
}

TEST(Groups, ARankThatThrowsEndsTheCollectivesOfTheOthers) {
  const auto began = std::chrono::steady_clock::now();
  try {
    argosy::testing::run_ranks(3, [](World& world) {
      barrier();
      if (world.rank() == 1) {
        throw Error("disk full");
      }
      at::Tensor value = torch::ones({100000});
      EXPECT_THROW(all_reduce(value), PeerLost);
    });
    FAIL();
  } catch (const RankFailed& failure) {
    EXPECT_EQ(failure.rank(), 1);
    EXPECT_THAT(failure.what(), HasSubstr("disk full"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

TEST(Groups, DisagreementAboutTensorsIsNamed) {
  argosy::testing::run_ranks(2, [](World& world) {
    at::Tensor value = torch::ones({world.rank() + 3});
    try {
      all_reduce(value);
      ADD_FAILURE();
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("all_reduce of 3 float32"));
      EXPECT_THAT(error.what(), HasSubstr("all_reduce of 4 float32"));
    }
  });
}

} // namespace
} // namespace argosy
