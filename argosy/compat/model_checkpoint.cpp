#include "argosy/compat/model_checkpoint.h"

#include "argosy/common/error.h"

namespace argosy {

std::string checkpoint_file_name(
    const std::string& prefix, std::int64_t epoch, std::int64_t step) {
  return str(prefix, "-", epoch, "_", step, ".safetensors");
}

ModelCheckpoint::ModelCheckpoint(
    std::string prefix,
    std::filesystem::path directory,
    CheckpointConfig config)
    : prefix_(std::move(prefix)),
      directory_(std::move(directory)),
      config_(config),
      last_time_(Clock::now()) {
  ARGOSY_CHECK(
      !prefix_.empty() && prefix_.find('/') == std::string::npos,
      "[model_checkpoint] prefix \"{}\", expected a part of a file name",
      prefix_);
  for (const auto& [key, value] :
       {std::pair{"save_checkpoint_steps", config_.save_checkpoint_steps},
        std::pair{"save_checkpoint_seconds", config_.save_checkpoint_seconds},
        std::pair{"keep_checkpoint_max", config_.keep_checkpoint_max},
        std::pair{
            "keep_checkpoint_per_n_minutes",
            config_.keep_checkpoint_per_n_minutes}}) {
    ARGOSY_CHECK(
        value >= 0, "[model_checkpoint] {} {}, expected 0 or more", key, value);
  }
}

std::optional<std::filesystem::path> ModelCheckpoint::step_end(
    std::int64_t epoch,
    std::int64_t step,
    const Save& save,
    Clock::time_point now) {
  const bool due = config_.save_checkpoint_steps > 0
      ? step >= last_step_ + config_.save_checkpoint_steps
      : config_.save_checkpoint_seconds > 0 &&
          now - last_time_ >=
              std::chrono::seconds(config_.save_checkpoint_seconds);
  if (!due) {
    return std::nullopt;
  }
  return save_now(epoch, step, save, now);
}

std::optional<std::filesystem::path> ModelCheckpoint::end(
    std::int64_t epoch,
    std::int64_t step,
    const Save& save,
    Clock::time_point now) {
  if (step == last_step_) {
    return std::nullopt;
  }
  return save_now(epoch, step, save, now);
}

std::filesystem::path ModelCheckpoint::save_now(
    std::int64_t epoch,
    std::int64_t step,
    const Save& save,
    Clock::time_point now) {
  const auto file = directory_ / checkpoint_file_name(prefix_, epoch, step);
  save(file);
  last_step_ = step;
  last_time_ = now;
  std::erase_if(kept_, [&](const Kept& kept) { return kept.file == file; });
  kept_.push_back({file, now});
  prune();
  return file;
}

std::optional<std::filesystem::path> ModelCheckpoint::latest_ckpt_file_name()
    const {
  return kept_.empty() ? std::nullopt : std::optional(kept_.back().file);
}

void ModelCheckpoint::prune() {
  const auto remove = [&](std::size_t index) {
    std::error_code ignored; // someone else may have removed it
    std::filesystem::remove(kept_[index].file, ignored);
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(index));
  };
  if (config_.keep_checkpoint_max > 0) {
    while (kept_.size() >
           static_cast<std::size_t>(config_.keep_checkpoint_max)) {
      remove(0);
    }
  } else if (config_.keep_checkpoint_per_n_minutes > 0 && kept_.size() > 2) {
    // The one before the newest stays if it is that much later than the one
    // before it.
    const std::size_t before = kept_.size() - 2;
    if (kept_[before].time - kept_[before - 1].time <
        std::chrono::minutes(config_.keep_checkpoint_per_n_minutes)) {
      remove(before);
    }
  }
}

} // namespace argosy
