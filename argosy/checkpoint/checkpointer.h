#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/cipher.h"
#include "argosy/checkpoint/folder.h"
#include "argosy/checkpoint/state.h"
#include "argosy/comm/ops.h"

namespace argosy::checkpoint {

// How a save went, as this rank saw it.
struct SaveReport {
  std::int64_t step = 0;
  std::uint64_t bytes = 0;        // that this rank had to write
  std::uint64_t linked_bytes = 0; // of these, linked to the last checkpoint
  double stall_seconds = 0;       // that save() took
  double seconds = 0;             // until the checkpoint was committed
  std::string error;              // empty: it is committed
};

// How far this rank is with a save.
struct SaveProgress {
  std::int64_t step = 0;
  std::uint64_t bytes = 0; // handed to the file system
  std::uint64_t total_bytes = 0;
};

struct CheckpointOptions {
  // save() returns as soon as this rank's state is copied; the rest runs beside
  // training.
  bool async = false;
  // The most memory for these copies. If there is more to write, save() writes
  // the difference before it returns. 0: no limit.
  std::uint64_t staging_bytes = 0;
  // Which checkpoints remain after a save.
  KeepPolicy keep;
  // Encrypts the values of tensors (AES-256-GCM).
  std::optional<Key> key;
  // The limit of each wait for other ranks and for the file system.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Called once for each save, on all ranks; of an asynchronous one by the
  // thread that writes.
  std::function<void(const SaveReport&)> on_saved;
  // Called by the thread that writes, at most twice a second.
  std::function<void(const SaveProgress&)> on_progress;
  // The ranks that save together. Null: all ranks of the world, or this process
  // alone if it has none.
  GroupPtr group;
};

struct LoadOptions {
  // The checkpoint to load. None: the newest.
  std::optional<std::int64_t> step;
  // Throw, before anything changes, if the checkpoint lacks something that the
  // state has, or has something that the state lacks. If false, both are
  // reported.
  bool strict = true;
  // Convert tensors to the types that the state has.
  bool cast = false;
  // Regular expressions on names, as "model/.*": load only these, and not
  // those. What is left out keeps its values, and is not reported.
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // The name that the checkpoint has for a name of the state. Null: the same.
  std::function<std::string(const std::string&)> rename;
  std::optional<Key> key; // of an encrypted checkpoint
  // A load that fails leaves the state as it was: bytes are verified first, or
  // what they replace is kept until all are verified. If false, a load is
  // faster by a pass over the checkpoint or by that copy, but one that fails
  // leaves old and new values, and says so.
  bool verify_first = true;
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  GroupPtr group; // as in CheckpointOptions
};

struct LoadReport {
  std::int64_t step = 0;
  std::string url;                    // of the checkpoint
  std::vector<std::string> missing;   // not in the checkpoint
  std::vector<std::string> left_over; // not in the state
  std::uint64_t bytes_read = 0;       // by this rank
  nlohmann::json values;              // all training values
};

// Saves the state to a folder of checkpoints: a path, or a URL of argosy/fs. A
// checkpoint appears there completely or not at all, whatever is killed when.
// All ranks call it alike; blocks. Throws CheckpointError on all ranks if one
// of them fails; what was committed before stays.
SaveReport save(
    const std::string& url,
    State& state,
    std::int64_t step,
    CheckpointOptions options = {});

// Loads a checkpoint into a state of any other layout and number of ranks.
// `url` is a folder of checkpoints or the folder of one. All ranks call it
// alike; blocks. Throws CheckpointError on all ranks if one of them fails; then
// the state is as it was before.
LoadReport load(
    const std::string& url, State& state, const LoadOptions& options = {});

// Saves again and again to one folder: asynchronously, by a communicator of its
// own, with memory that is kept, and removes what its policy does not keep. All
// ranks make it and call its methods alike. Not thread-safe.
//
//   checkpoint::Checkpointer saver("runs/gpt", {.async = true, .keep = {.last =
//   3}}); if (auto report = saver.load_newest(state)) { step = report->step; }
//   ...
//   if (step % 1000 == 0) { saver.save(state, step); }
class Checkpointer {
 public:
  // Throws CheckpointError if another job saves to the folder.
  explicit Checkpointer(std::string url, CheckpointOptions options = {});
  ~Checkpointer(); // waits for the save under way, and logs its failure
  Checkpointer(Checkpointer&&) noexcept;
  Checkpointer& operator=(Checkpointer&&) = delete;

  // Call it between an optimizer's step and the next forward. Waits for the
  // save before this one if it is still under way. Throws CheckpointError for
  // its own failure, and for that of an asynchronous save before it (then it
  // has not begun; call it again).
  void save(State& state, std::int64_t step);

  // Waits for an asynchronous save. Throws CheckpointError if it failed.
  void wait();

  // The step of the newest checkpoint in the folder; none if there is none.
  // Collective.
  std::optional<std::int64_t> newest_step();

  // None if the folder has no checkpoint.
  std::optional<LoadReport> load_newest(State& state, LoadOptions options = {});

  // Of the last save that ended.
  const std::optional<SaveReport>& last_report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::checkpoint
