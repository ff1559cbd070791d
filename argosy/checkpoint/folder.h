#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "argosy/checkpoint/manifest.h"
#include "argosy/fs/open.h"

// Where checkpoints are: a folder with one folder for each, "step-00000010".
// Torch-free.
//
//   step-00000010/rank-00000-0.safetensors
//   step-00000010/manifest.json       written last: without it, there is none
//   latest                            the name of the newest: "step-00000010"
namespace argosy::checkpoint {

inline constexpr const char* kLatestName = "latest";
inline constexpr const char* kLockName = ".lock";

std::string folder_name(std::int64_t step);
// None for a name that is not one of folder_name().
std::optional<std::int64_t> step_of(const std::string& name);

struct FoundCheckpoint {
  std::int64_t step = 0;
  std::string name;
  bool committed = false;

  bool operator==(const FoundCheckpoint&) const = default;
};

// A folder of checkpoints. All methods throw CheckpointError with the path.
class Folder {
 public:
  explicit Folder(fs::Location location);

  const std::string& path() const { return location_.path; }
  std::string url(const std::string& name = {}) const;
  fs::FileSystem& fs() const { return *location_.fs; }
  std::string path_of(const std::string& name) const;

  // Ascending by step, whether committed or not.
  std::vector<FoundCheckpoint> list(Deadline deadline) const;
  // The newest committed one; none if there is none.
  std::optional<FoundCheckpoint> newest(Deadline deadline) const;

  Manifest read_manifest(const std::string& name, Deadline deadline) const;

  // Makes an empty folder for a checkpoint. Throws if it exists and is
  // committed; what was not committed is removed.
  void begin(const std::string& name, Deadline deadline) const;
  // From here on the checkpoint exists. Then updates `latest`.
  void commit(
      const std::string& name,
      const Manifest& manifest,
      Deadline deadline) const;

  // Removes a checkpoint: first it no longer exists, then its files go.
  void remove(const std::string& name, Deadline deadline) const;
  // Removes what was never committed, and partial files.
  void sweep(Deadline deadline) const;

 private:
  const fs::Location location_;
};

// Keeps other jobs from saving to the same folder, as long as it lives or the
// process does. Only for local folders; others are not locked.
class FolderLock {
 public:
  // Throws CheckpointError that names the holder.
  explicit FolderLock(const Folder& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Throws CheckpointError if the path no longer leads to the folder that was
  // locked: its file system is gone, and what is written there would go to the
  // disk below.
  void check();

 private:
  bool is_same_folder() const;
  bool lock_again();

  const Folder folder_;
  std::string text_; // in the file: who holds it
  int fd_ = -1;
  struct {
    std::uint64_t device = 0;
    std::uint64_t number = 0;
  } inode_; // of the folder
};

// What a checkpoint names: a folder of checkpoints, of which the newest counts,
// or a checkpoint's own folder.
struct Chosen {
  Folder folder;
  std::string name;
};
Chosen choose(
    const std::string& url,
    std::optional<std::int64_t> step,
    Deadline deadline);

// Which checkpoints to keep.
struct KeepPolicy {
  int last = 0;           // the newest this many; 0: all
  std::int64_t every = 0; // and those whose step is a multiple; 0: none
  int best = 0;           // and the best by `metric`; 0: none
  std::string metric;     // a value of the state: "loss"
  bool lower_is_better = true;

  bool operator==(const KeepPolicy&) const = default;
};

struct Rated {
  std::int64_t step = 0;
  std::optional<double> metric;
};

// The steps to remove. Never the newest. Pure.
std::vector<std::int64_t> superfluous(
    std::vector<Rated> committed, const KeepPolicy& policy);

} // namespace argosy::checkpoint
