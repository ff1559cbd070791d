// When checkpoints are saved, under which names, and which are kept.

#include "argosy/compat/model_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "argosy/common/error.h"
#include "argosy/common/file.h"

namespace argosy {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;

std::set<std::string> files_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().stem().string());
  }
  return names;
}

void save(const std::filesystem::path& file) {
  write_file(file, "x");
}

TEST(ModelCheckpoint, SavesEveryNSteps) {
  const TempDir folder;
  ModelCheckpoint checkpoints(
      "net",
      folder.path(),
      {.save_checkpoint_steps = 3, .save_checkpoint_seconds = 1});
  for (int step = 1; step <= 8; ++step) {
    checkpoints.step_end(1 + step / 5, step, save);
  }
  EXPECT_THAT(files_in(folder.path()), ElementsAre("net-1_3", "net-2_6"));
  EXPECT_EQ(checkpoints.end(2, 8, save), folder.path() / "net-2_8.safetensors");
  EXPECT_EQ(checkpoints.end(2, 8, save), std::nullopt);
}

TEST(ModelCheckpoint, SavesEveryNSeconds) {
  const TempDir folder;
  ModelCheckpoint checkpoints(
      "net",
      folder.path(),
      {.save_checkpoint_steps = 0, .save_checkpoint_seconds = 10});
  const auto begin = ModelCheckpoint::Clock::now() + seconds(1);
  for (int step = 1; step <= 7; ++step) {
    checkpoints.step_end(1, step, save, begin + seconds(4 * step));
  }
  EXPECT_THAT(files_in(folder.path()), ElementsAre("net-1_3", "net-1_6"));
}

TEST(ModelCheckpoint, KeepsTheLastN) {
  const TempDir folder;
  ModelCheckpoint checkpoints("net", folder.path(), {.keep_checkpoint_max = 2});
  EXPECT_EQ(checkpoints.latest_ckpt_file_name(), std::nullopt);
  for (int step = 1; step <= 5; ++step) {
    checkpoints.step_end(1, step, save);
  }
  EXPECT_THAT(files_in(folder.path()), ElementsAre("net-1_4", "net-1_5"));
  EXPECT_EQ(
      checkpoints.latest_ckpt_file_name(),
      folder.path() / "net-1_5.safetensors");
}

TEST(ModelCheckpoint, KeepsOnePerNMinutesAndTheNewest) {
  const TempDir folder;
  ModelCheckpoint checkpoints(
      "net",
      folder.path(),
      {.keep_checkpoint_max = 0, .keep_checkpoint_per_n_minutes = 10});
  const auto begin = ModelCheckpoint::Clock::now();
  for (int step = 1; step <= 8; ++step) {
    checkpoints.step_end(1, step, save, begin + minutes(4 * step));
  }
  EXPECT_THAT(
      files_in(folder.path()),
      ElementsAre("net-1_1", "net-1_4", "net-1_7", "net-1_8"));
}

TEST(ModelCheckpoint, AFailedSaveRemovesNothing) {
  const TempDir folder;
  ModelCheckpoint checkpoints("net", folder.path(), {.keep_checkpoint_max = 1});
  checkpoints.step_end(1, 1, save);
  EXPECT_THROW(
      checkpoints.step_end(
          1, 2, [](const auto&) { throw CheckpointError("disk full"); }),
      CheckpointError);
  EXPECT_THAT(files_in(folder.path()), ElementsAre("net-1_1"));
}

TEST(ModelCheckpoint, RefusesBadSettings) {
  EXPECT_THROW(
      ModelCheckpoint("net", "x", {.keep_checkpoint_max = -1}),
      InvalidArgument);
  EXPECT_THROW(ModelCheckpoint("a/b", "x"), InvalidArgument);
}

} // namespace
} // namespace argosy
