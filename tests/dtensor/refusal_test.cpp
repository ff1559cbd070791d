// What DTensors refuse rather than get wrong, and what they do on ranks that
// have no part.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "argosy/comm/coalesce.h"
#include "argosy/comm/functional.h"
#include "argosy/comm/objects.h"
#include "argosy/common/error.h"
#include "argosy/compat/stream.h"
#include "argosy/data_parallel/data_parallel.h"
#include "argosy/dtensor/deferred_init.h"
#include "argosy/torch_hooks/wrapper_tensor.h"
#include "argosy/world/init.h"
#include "tests/dtensor/op_checks.h"

namespace argosy {
namespace {

using argosy::testing::exact_values;
using argosy::testing::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(RefusalRanks, SaysWhatToDoInstead) {
  run_ranks(2, [](World&) {
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    const at::Tensor x = shard_tensor(exact_values({4, 3}), mesh, {Shard(1)});
    const at::Tensor plain = exact_values({4, 3});
    EXPECT_THAT(
        refusal_of([&] { plain.clone().add_(x); }),
        HasSubstr("argument self is a plain tensor"));
    EXPECT_THAT(
        refusal_of([&] { x.view({12}).add_(1); }),
        HasSubstr("is a view whose base is sharded in another way"));
    EXPECT_THAT(
        refusal_of([&] { x.resize_({3}); }), HasSubstr("changes the shape"));
    EXPECT_THAT(
        refusal_of([&] { torch::poisson(x); }),
        HasSubstr("is random and has no sharding rule"));
    const at::Tensor other =
        shard_tensor(plain, ProcessMesh({2}, {1, 0}, {}), {Shard(0)});
    EXPECT_THAT(
        refusal_of([&] { x + other; }), HasSubstr("tensors on two meshes"));
  });
}

// Every collective and message, with `x` in each place that takes a tensor.
std::vector<std::pair<const char*, std::function<void()>>> collectives_on(
    const at::Tensor& x) {
  const at::Tensor plain = torch::ones(x.sizes());
  const at::Tensor twice = torch::ones({2 * x.size(0), x.size(1)});
  const Tensors xs = {x, x};
  const Tensors plains = {plain, plain};
  const auto mutable_copy = [](Tensors list) {
    return std::make_shared<Tensors>(std::move(list));
  };
  namespace F = functional;
  return {
      {"all_reduce", [=] { all_reduce(x); }},
      {"reduce", [=] { reduce(x); }},
      {"broadcast", [=] { broadcast(x); }},
      {"all_gather", [=] { all_gather(*mutable_copy({}), x); }},
      {"all_gather into", [=] { all_gather(*mutable_copy(xs), plain); }},
      {"all_gather whole", [=] { all_gather(twice, x); }},
      {"all_gather of a part",
       [=] {
         all_gather(x, torch::ones({2, 3}));
       }},
      {"gather", [=] { gather(x, mutable_copy({}).get()); }},
      {"scatter", [=] { scatter(x, plains); }},
      {"scatter of", [=] { scatter(x, twice); }},
      {"reduce_scatter", [=] { reduce_scatter(x, plains); }},
      {"reduce_scatter of", [=] { reduce_scatter(plain, xs); }},
      {"reduce_scatter whole",
       [=] {
         reduce_scatter(torch::ones({2, 3}), x);
       }},
      {"alltoall", [=] { alltoall({.out = *mutable_copy({}), .in = xs}); }},
      {"alltoall into",
       [=] { alltoall({.out = *mutable_copy(xs), .in = plains}); }},
      {"alltoall_single", [=] { alltoall_single(plain, x); }},
      {"alltoall_single into", [=] { alltoall_single(x, plain); }},
      {"send", [=] { send(x, 1 - get_rank()); }},
      {"recv", [=] { recv(x, 1 - get_rank()); }},
      {"isend", [=] { isend(x, 1 - get_rank()); }},
      {"irecv", [=] { irecv(x, 1 - get_rank()); }},
      {"stream", [=] { stream::all_reduce(x); }},
      {"coalesced", [=] { all_reduce_coalesced(xs); }},
      {"object", [=] { all_gather_object(*mutable_copy({}), x); }},
      {"functional::all_reduce", [=] { F::all_reduce(x); }},
      {"functional::all_gather", [=] { F::all_gather(x); }},
      {"functional::reduce_scatter", [=] { F::reduce_scatter(x); }},
      {"functional::alltoall_single", [=] { F::alltoall_single(x); }},
      {"functional::send", [=] { F::send(x, 1 - get_rank()); }},
      {"functional::c_identity", [=] { F::c_identity(x); }},
      {"functional::c_split", [=] { F::c_split(x); }}};
}

TEST(RefusalRanks, CollectivesSayWhatToUseForDTensors) {
  run_ranks(2, [](World&) {
    const at::Tensor x = shard_tensor(
        exact_values({4, 3}), ProcessMesh::of_shape({2}), {Shard(0)});
    for (const auto& [name, call] : collectives_on(x)) {
      EXPECT_THAT(
          refusal_of(call),
          AllOf(
              HasSubstr("[comm."),
              HasSubstr("a DTensor (or a tensor of DeferredInit) [4, 3]"),
              HasSubstr("Use reshard()"),
              HasSubstr("to_local()"),
              HasSubstr("full_tensor()")))
          << name;
    }
    barrier(); // no rank is ahead of the others
  });
}

TEST(RefusalRanks, CollectivesRefuseTensorsWithoutMemoryYet) {
  run_ranks(2, [](World&) {
    at::Tensor x;
    {
      const DeferredInit deferred;
      x = torch::ones({4, 3});
    }
    EXPECT_THAT(
        refusal_of([&] { all_reduce(x); }),
        HasSubstr("tensor of DeferredInit"));
  });
}

TEST(RefusalRanks, DataParallelNamesTheParameterThatIsADTensor) {
  run_ranks(2, [](World&) {
    torch::nn::Linear net(4, 2);
    const ProcessMesh mesh = ProcessMesh::of_shape({2});
    shard_tensor_(net->bias, mesh, {Replicate()});
    EXPECT_THAT(
        refusal_of([&] { DataParallel model(net); }),
        AllOf(
            HasSubstr("bias is a DTensor"),
            HasSubstr("needs no DataParallel"),
            HasSubstr("shard_dataloader()")));
  });
}

// LibTorch would speak of lazy allocation, or hand out a null pointer.
TEST(RefusalRanks, MemoryOfAWholeTensor) {
  run_ranks(2, [](World&) {
    const at::Tensor x = shard_tensor(
        exact_values({4, 3}), ProcessMesh::of_shape({2}), {Shard(1)});
    const auto says_so = AllOf(
        HasSubstr("a DTensor of shape [4, 3], [S(1)] on ProcessMesh(shape=[2]"),
        HasSubstr("has no memory of its own"),
        HasSubstr("to_local()"));
    const at::Tensor parameter = exact_values({4, 3});
    shard_tensor_(
        parameter, ProcessMesh::of_shape({2}), {Shard(1)}); // changes its class
    for (const at::Tensor& each : {x, parameter, x.detach(), x.t().t()}) {
      EXPECT_THAT(refusal_of([&] { each.data_ptr<float>(); }), says_so);
      EXPECT_THAT(refusal_of([&] { each.data_ptr(); }), says_so);
      EXPECT_THAT(refusal_of([&] { each.accessor<float, 2>(); }), says_so);
      EXPECT_THAT(refusal_of([&] { each.storage(); }), says_so);
    }
    EXPECT_EQ(
        to_local(parameter).data_ptr<float>()[0],
        to_local(x)[0][0].item<float>());
  });
}

// A plain tensor becomes one without memory and back.
TEST(RefusalRanks, MemoryOfADeferredTensor) {
  run_ranks(1, [](World&) {
    at::Tensor tensor;
    {
      const DeferredInit deferred;
      tensor = torch::ones({3});
    }
    EXPECT_THAT(
        refusal_of([&] { tensor.data_ptr<float>(); }),
        HasSubstr("made under DeferredInit has no memory yet"));
    shard_tensor_(tensor, ProcessMesh::of_shape({1}), {Replicate()});
    torch_hooks::become(tensor, to_local(tensor));
    EXPECT_EQ(tensor.data_ptr<float>()[0], 1);
  });
}

// Views of the same cut do reach their base.
TEST(RefusalRanks, TakesViewsThatAreViews) {
  run_ranks(2, [](World&) {
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor x =
        shard_tensor(value, ProcessMesh::of_shape({2}), {Shard(0)});
    x.view({12}).add_(1);
    x.t().mul_(2);
    EXPECT_TRUE(torch::equal(full_tensor(x), (value + 1) * 2));
  });
}

TEST(RefusalRanks, RanksOutsideKnowShapesOnly) {
  run_ranks(3, [](World& world) {
    const at::Tensor value = exact_values({4, 3});
    const at::Tensor x =
        shard_tensor(value, ProcessMesh::of_shape({2}), {Shard(0)})
            .requires_grad_();
    const at::Tensor y = (x * 2).t().matmul(x);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 3}));
    y.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    if (world.rank() == 2) {
      EXPECT_EQ(to_local(y.detach()).numel(), 0);
      EXPECT_THROW(y.sum().item<float>(), InvalidArgument);
    } else {
      EXPECT_TRUE(
          torch::equal(full_tensor(y.detach()), (value * 2).t().matmul(value)));
    }
  });
}

// Errors of arguments come up as they do without us.
TEST(RefusalRanks, WrongArguments) {
  run_ranks(2, [](World&) {
    const at::Tensor x = shard_tensor(
        exact_values({4, 3}), ProcessMesh::of_shape({2}), {Shard(0)});
    EXPECT_THROW(x.matmul(x), c10::Error);
    EXPECT_THROW(x.view({5}), std::exception);
  });
}

} // namespace
} // namespace argosy
