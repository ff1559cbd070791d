// Damaged files, full disks, folders that cannot be used: errors that say what,
// and nothing that was committed is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "argosy/world/world.h"
#include "tests/support/refusal.h"

namespace argosy::checkpoint {
namespace {

namespace stdfs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

void flip_bit(const stdfs::path& path, std::int64_t offset_from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-offset_from_end, std::ios::end);
  const auto position = file.tellg();
  char byte = 0;
  file.read(&byte, 1);
  byte = static_cast<char>(byte ^ 4);
  file.seekp(position);
  file.write(&byte, 1);
}

struct Saved {
  TempDir folder;
  torch::nn::Linear net{64, 32};
  State state{net};

  Saved() { save(folder.path(), state, 1); }
  stdfs::path file() const {
    return folder.path() / "step-00000001" / "rank-00000-0.safetensors";
  }
  std::string error() {
    return testing::refusal<Error>([&] { load(folder.path(), state); });
  }
};

TEST(Damage, OfABitNamesFileTensorAndByte) {
  Saved saved;
  flip_bit(saved.file(), 6000);
  const at::Tensor before = saved.net->weight.detach().clone();
  EXPECT_THAT(
      saved.error(),
      AllOf(
          HasSubstr("rank-00000-0.safetensors"),
          HasSubstr("are damaged"),
          HasSubstr("model/weight"),
          HasSubstr("bytes 4224 to 12416")));
  EXPECT_TRUE(saved.net->weight.equal(before));
}

// Without verify_first, the error says that the state is no longer what it was.
TEST(Damage, OfABitWhenReadingInPlace) {
  Saved saved;
  flip_bit(saved.file(), 6000);
  EXPECT_THAT(
      testing::refusal<Error>([&] {
        load(saved.folder.path(), saved.state, {.verify_first = false});
      }),
      AllOf(HasSubstr("are damaged"), HasSubstr("has old and new values now")));
}

TEST(Damage, OfTheLengthNamesTheFile) {
  Saved saved;
  stdfs::resize_file(saved.file(), stdfs::file_size(saved.file()) - 100);
  EXPECT_THAT(
      saved.error(),
      AllOf(HasSubstr("rank-00000-0.safetensors has"), HasSubstr("expected")));
}

TEST(Damage, AFileThatIsGone) {
  Saved saved;
  stdfs::remove(saved.file());
  EXPECT_THAT(saved.error(), HasSubstr("rank-00000-0.safetensors"));
}

TEST(Damage, OfTheManifest) {
  Saved saved;
  const auto manifest = saved.file().parent_path() / "manifest.json";
  stdfs::resize_file(manifest, stdfs::file_size(manifest) / 2);
  EXPECT_THAT(saved.error(), HasSubstr("manifest.json"));
}

// One rank reads the damaged piece; all ranks throw, and none has changed.
TEST(Damage, IsToldToAllRanks) {
  const TempDir folder;
  testing::run_ranks(3, [&](World& world) {
    torch::nn::Linear net(128, 96);
    {
      const torch::NoGradGuard no_grad;
      net->weight.fill_(1);
      net->bias.fill_(1);
    }
    State state{net};
    save(folder.path(), state, 1);
    barrier();
    if (world.rank() == 0) {
      flip_bit(
          folder.path() / "step-00000001" / "rank-00001-0.safetensors", 6000);
    }
    barrier();
    const torch::NoGradGuard no_grad;
    net->weight.fill_(2);
    const std::string error =
        testing::refusal<CheckpointError>([&] { load(folder.path(), state); });
    EXPECT_THAT(error, HasSubstr("rank-00001-0.safetensors")) << world.rank();
    EXPECT_TRUE(net->weight.eq(2).all().item<bool>());
  });
}

TEST(Folders, ThatCannotBeUsed) {
  const TempDir folder;
  torch::nn::Linear net(4, 4);
  State state{net};
  const stdfs::path file = folder.path() / "file";
  std::ofstream(file) << "x";
  EXPECT_THAT(
      testing::refusal<Error>([&] { save(file, state, 1); }),
      HasSubstr(file.string()));
  EXPECT_THAT(
      testing::refusal<Error>([&] { load(folder.path() / "none", state); }),
      HasSubstr("has no checkpoint"));
  save(folder.path() / "run", state, 1);
  EXPECT_THAT(
      testing::refusal<Error>([&] { save(folder.path() / "run", state, 1); }),
      HasSubstr("exists already"));
}

TEST(Folders, AreOfOneJob) {
  const TempDir folder;
  const Checkpointer saver(folder.path());
  EXPECT_THAT(
      testing::refusal<Error>([&] { Checkpointer other(folder.path()); }),
      AllOf(HasSubstr("another job saves to"), HasSubstr("process ")));
}

// A limit of the size of files stands for a full disk.
TEST(FullDisk, KeepsTheLastCheckpointAndLetsTrainingGoOn) {
  const TempDir folder;
  torch::nn::Linear net(512, 512);
  State state{net};
  Checkpointer saver(folder.path());
  saver.save(state, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{100'000, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const std::string error =
      testing::refusal<Error>([&] { saver.save(state, 2); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, HasSubstr("rank-00000-0.safetensors"));
  EXPECT_FALSE(stdfs::exists(folder.path() / "step-00000002"));
  EXPECT_EQ(load(folder.path(), state).step, 1);
  saver.save(state, 3);
  EXPECT_EQ(load(folder.path(), state).step, 3);
}

} // namespace
} // namespace argosy::checkpoint
