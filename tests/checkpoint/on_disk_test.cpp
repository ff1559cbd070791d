// Checkpoints that are no longer in the page cache: another way of reading,
// with the same results and the same errors.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/checkpoint/load_way.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Takes what is in a folder out of the page cache.
void put_on_disk(const std::filesystem::path& folder) {
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      const int fd = ::open(entry.path().c_str(), O_RDWR);
      ::fsync(fd);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }
}

LoadWay way_of(const std::filesystem::path& folder, int num_ranks) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(9));
  const Chosen chosen = choose(folder.string(), std::nullopt, deadline);
  return choose_way(
      true,
      look_at(
          chosen.folder,
          chosen.name,
          chosen.folder.read_manifest(chosen.name, deadline),
          num_ranks,
          deadline));
}

// Of several chunks, and aligned to nothing.
struct LargeNet : torch::nn::Module {
  LargeNet() {
    a = register_parameter("a", torch::arange(3'000'001, torch::kFloat));
    b = register_parameter("b", torch::arange(1001, torch::kDouble));
  }
  at::Tensor a;
  at::Tensor b;

  void clear() {
    const torch::NoGradGuard no_grad;
    a.zero_();
    b.zero_();
  }
  bool is_clear() const {
    return a.eq(0).all().item<bool>() && b.eq(0).all().item<bool>();
  }
  bool is_whole() const {
    return a.equal(torch::arange(3'000'001, torch::kFloat)) &&
        b.equal(torch::arange(1001, torch::kDouble));
  }
};

void expect_loads(const std::filesystem::path& folder, LoadOptions options) {
  for (const bool verify_first : {true, false}) {
    put_on_disk(folder);
    options.verify_first = verify_first;
    testing::run_ranks(2, [&](World&) {
      LargeNet net;
      net.clear();
      State state;
      state.add("model", net);
      load(folder, state, options);
      EXPECT_TRUE(net.is_whole());
    });
  }
}

TEST(OnDisk, LoadsWhatWasSaved) {
  const TempDir folder;
  const auto plain = folder.path() / "plain";
  const auto secret = folder.path() / "secret";
  const Key key(std::vector<std::byte>(32, std::byte{5}));
  testing::run_ranks(3, [&](World&) {
    LargeNet net;
    State state;
    state.add("model", net);
    save(plain, state, 1);
    save(secret, state, 1, {.key = key});
  });
  put_on_disk(plain);
  if (way_of(plain, 2) == LoadWay{Order::VerifyThenRead, false}) {
    GTEST_SKIP() << folder.path() << " is in memory, or there is little of it";
  }
  EXPECT_EQ(way_of(plain, 2), (LoadWay{Order::ReadWithUndo, true}));
  EXPECT_EQ(way_of(plain, 1'000'000), (LoadWay{Order::VerifyThenRead, false}));
  expect_loads(plain, {});
  expect_loads(secret, {.key = key});
}

TEST(OnDisk, DamageLeavesTheState) {
  const TempDir parent;
  const auto& folder = parent.path();
  testing::run_ranks(2, [&](World& world) {
    LargeNet net;
    State state;
    state.add("model", net);
    save(folder, state, 1);
    barrier();
    if (world.rank() == 0) {
      const auto file = folder / "step-00000001" / "rank-00001-0.safetensors";
      std::string bytes = *read_file(file);
      ASSERT_GT(bytes.size(), 4'000'000u);
      bytes[bytes.size() - 2'000'000] ^= 16;
      write_file(file, bytes);
      put_on_disk(folder);
    }
    barrier();
    net.clear();
    EXPECT_THAT(
        testing::refusal<CheckpointError>([&] { load(folder, state); }),
        AllOf(
            HasSubstr("rank-00001-0.safetensors"),
            HasSubstr("are damaged"),
            ::testing::Not(HasSubstr("old and new values"))));
    EXPECT_TRUE(net.is_clear());
    if (world.rank() == 0) {
      std::filesystem::resize_file(
          folder / "step-00000001" / "rank-00000-0.safetensors", 5000);
      put_on_disk(folder);
    }
    barrier();
    EXPECT_THAT(
        testing::refusal<CheckpointError>([&] { load(folder, state); }),
        HasSubstr("rank-00000-0.safetensors has 5000 bytes"));
    EXPECT_TRUE(net.is_clear());
  });
}

// A bit in the last chunk of a file, on the disk.
void damage_end(const std::filesystem::path& file) {
  std::string bytes = *read_file(file);
  bytes[bytes.size() - 9] ^= 16;
  write_file(file, bytes);
  put_on_disk(file.parent_path());
}

// A tensor of another type, one of another order in memory, and two of one
// memory.
struct MixedNet : torch::nn::Module {
  explicit MixedNet(double value) {
    const auto filled = [&](double more) {
      return torch::full({1500, 1000}, value + more, torch::kDouble);
    };
    cast = register_buffer("cast", filled(1).to(torch::kFloat));
    turned = register_buffer("turned", filled(2).t().contiguous().t());
    first = register_buffer("first", filled(3));
    second = register_buffer("second", first.view({3000, 500}));
  }
  at::Tensor cast;
  at::Tensor turned;
  at::Tensor first;
  at::Tensor second;

  bool is(double value) const {
    const auto all = [](const at::Tensor& tensor, double expected) {
      return tensor.eq(expected).all().item<bool>();
    };
    return all(cast, value + 1) && all(turned, value + 2) &&
        all(first, value + 3) && all(second, value + 3);
  }
};

TEST(OnDisk, DamageLeavesTensorsOfAnyForm) {
  const TempDir folder;
  MixedNet net(5);
  State state;
  state.add("model", net);
  save(folder.path(), state, 1);
  const torch::NoGradGuard no_grad;
  net.cast.set_data(net.cast.to(torch::kDouble));
  for (const at::Tensor& each : net.buffers()) {
    each.zero_();
  }
  put_on_disk(folder.path());
  load(folder.path(), state, {.cast = true});
  EXPECT_TRUE(net.is(5));
  for (const at::Tensor& each : {net.cast, net.turned, net.first}) {
    each.add_(4);
  }
  damage_end(folder.path() / "step-00000001" / "rank-00000-0.safetensors");
  EXPECT_THAT(
      testing::refusal<CheckpointError>(
          [&] { load(folder.path(), state, {.cast = true}); }),
      HasSubstr("are damaged"));
  EXPECT_TRUE(net.is(9));
}

// What one rank has overwritten is not what the other finds there.
TEST(OnDisk, DamageLeavesWhatThreadsShare) {
  const TempDir folder;
  LargeNet net;
  testing::run_ranks(2, [&](World&) {
    State state;
    state.add("model", net);
    save(folder.path(), state, 1);
  });
  net.clear();
  put_on_disk(folder.path());
  const auto load_shared = [&](World&) {
    State state;
    state.add("model", net);
    load(folder.path(), state);
  };
  damage_end(folder.path() / "step-00000001" / "rank-00001-0.safetensors");
  EXPECT_THROW(testing::run_ranks(2, load_shared), Error);
  EXPECT_TRUE(net.is_clear());
  damage_end(folder.path() / "step-00000001" / "rank-00001-0.safetensors");
  testing::run_ranks(2, load_shared);
  EXPECT_TRUE(net.is_whole());
}

// Those who keep what they made of a tensor ask for its version: gathers ahead,
// and autograd.
TEST(OnDisk, LoadsCountAsWrites) {
  const TempDir folder;
  LargeNet net;
  State state;
  state.add("model", net);
  save(folder.path(), state, 1);
  for (const bool on_disk : {false, true}) {
    for (const bool verify_first : {false, true}) {
      if (on_disk) {
        put_on_disk(folder.path());
      }
      const auto before = net.a._version();
      load(folder.path(), state, {.verify_first = verify_first});
      EXPECT_GT(net.a._version(), before) << on_disk << verify_first;
    }
  }
}

} // namespace
} // namespace argosy::checkpoint
