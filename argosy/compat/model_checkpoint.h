#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// When to save, under which name, and what to keep, as MindSpore's
// CheckpointConfig has it. No torch headers.
namespace argosy {

struct CheckpointConfig {
  // 0 is off. Steps count before seconds, and the largest number of files
  // before minutes.
  std::int64_t save_checkpoint_steps = 1;
  std::int64_t save_checkpoint_seconds = 0;
  std::int64_t keep_checkpoint_max = 5;
  std::int64_t keep_checkpoint_per_n_minutes = 0;
};

// Saves a rank's files <directory>/<prefix>-<epoch>_<step>.safetensors in a
// training loop. Each rank has a folder of its own.
//
//   ModelCheckpoint checkpoints("net", folder / "rank_0",
//   {.save_checkpoint_steps = 100}); checkpoints.step_end(epoch, step,
//   [&](const auto& file) { ... });
class ModelCheckpoint {
 public:
  using Clock = std::chrono::steady_clock;
  using Save = std::function<void(const std::filesystem::path& file)>;

  // Throws InvalidArgument for negative numbers and prefixes with a slash.
  ModelCheckpoint(
      std::string prefix,
      std::filesystem::path directory,
      CheckpointConfig config = {});

  // Calls `save` if a checkpoint is due after so many steps, and then removes
  // the files that are not kept, never the newest. Steps count from 1, over all
  // epochs.
  // Returns the file, or nullopt if none was due.
  std::optional<std::filesystem::path> step_end(
      std::int64_t epoch,
      std::int64_t step,
      const Save& save,
      Clock::time_point now = Clock::now());
  // Saves unless the last step was saved.
  std::optional<std::filesystem::path> end(
      std::int64_t epoch,
      std::int64_t step,
      const Save& save,
      Clock::time_point now = Clock::now());

  // The newest file; nullopt before the first.
  std::optional<std::filesystem::path> latest_ckpt_file_name() const;

 private:
  struct Kept {
    std::filesystem::path file;
    Clock::time_point time;
  };

  std::filesystem::path save_now(
      std::int64_t epoch,
      std::int64_t step,
      const Save& save,
      Clock::time_point now);
  void prune();

  std::string prefix_;
  std::filesystem::path directory_;
  CheckpointConfig config_;
  std::int64_t last_step_ = 0;
  Clock::time_point last_time_;
  std::vector<Kept> kept_; // oldest first
};

// "net-3_100.safetensors"
std::string checkpoint_file_name(
    const std::string& prefix, std::int64_t epoch, std::int64_t step);

} // namespace argosy
