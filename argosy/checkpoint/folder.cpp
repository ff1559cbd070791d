#include "argosy/checkpoint/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "argosy/common/error.h"
#include "argosy/common/fault_point.h"
#include "argosy/common/text.h"
#include "argosy/fs/error.h"
#include "argosy/fs/transfer.h"

namespace argosy::checkpoint {

namespace {

constexpr char kPrefix[] = "step-";

std::string text_in(int fd) {
  char text[256] = {};
  const ssize_t count = ::pread(fd, text, sizeof(text) - 1, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

} // namespace

std::string folder_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) {
    digits.insert(0, 8 - digits.size(), '0');
  }
  return kPrefix + digits;
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const auto step = parse_int(std::string_view(name).substr(strlen(kPrefix)));
  if (!step || *step < 0 || folder_name(*step) != name) {
    return std::nullopt;
  }
  return *step;
}

Folder::Folder(fs::Location location) : location_(std::move(location)) {}

std::string Folder::url(const std::string& name) const {
  return fs().url(name.empty() ? path() : path_of(name));
}

std::string Folder::path_of(const std::string& name) const {
  return fs::join_path(path(), name);
}

std::vector<FoundCheckpoint> Folder::list(Deadline deadline) const {
  std::vector<FoundCheckpoint> found;
  for (const fs::Entry& entry : fs().list(path(), deadline)) {
    const auto step = entry.is_dir ? step_of(entry.name) : std::nullopt;
    if (step) {
      const std::string manifest =
          fs::join_path(path_of(entry.name), kManifestName);
      found.push_back(
          {*step, entry.name, fs().stat(manifest, deadline).has_value()});
    }
  }
  std::ranges::sort(found, {}, &FoundCheckpoint::step);
  return found;
}

std::optional<FoundCheckpoint> Folder::newest(Deadline deadline) const {
  std::optional<FoundCheckpoint> newest;
  for (FoundCheckpoint& each : list(deadline)) {
    if (each.committed) {
      newest = std::move(each);
    }
  }
  return newest;
}

Manifest Folder::read_manifest(
    const std::string& name, Deadline deadline) const {
  const std::string path = fs::join_path(path_of(name), kManifestName);
  return parse_manifest(
      fs::read_text({location_.fs, path}, deadline), fs().url(path));
}

void Folder::begin(const std::string& name, Deadline deadline) const {
  const std::string folder = path_of(name);
  if (fs().stat(fs::join_path(folder, kManifestName), deadline)) {
    throw CheckpointError(str_format(
        "[checkpoint.save] {} exists already: save another step, or remove it "
        "first (argosy ckpt prune)",
        fs().url(folder)));
  }
  fs().remove(folder, deadline);
  fs().make_dirs(folder, deadline);
}

void Folder::commit(
    const std::string& name,
    const Manifest& manifest,
    Deadline deadline) const {
  fault_point("checkpoint.before_manifest");
  fs::write_text(
      {location_.fs, fs::join_path(path_of(name), kManifestName)},
      to_text(manifest),
      deadline);
  fault_point("checkpoint.before_latest");
  fs::write_text({location_.fs, path_of(kLatestName)}, name + "\n", deadline);
}

void Folder::remove(const std::string& name, Deadline deadline) const {
  fs().remove(fs::join_path(path_of(name), kManifestName), deadline);
  fault_point("checkpoint.half_removed");
  fs().remove(path_of(name), deadline);
}

void Folder::sweep(Deadline deadline) const {
  for (const FoundCheckpoint& each : list(deadline)) {
    if (!each.committed) {
      fs().remove(path_of(each.name), deadline);
    }
  }
  fs().sweep(path(), std::chrono::hours(1), deadline);
}

// flock() is released by the kernel when the process dies, however that
// happens: there is no stale lock.
FolderLock::FolderLock(const Folder& folder) : folder_(folder) {
  const std::string path = folder.path_of(kLockName);
  if (folder.url().find("://") != std::string::npos) {
    return;
  }
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    fs::throw_errno(errno, "lock", path);
  }
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const std::string holder = text_in(fd_);
    ::close(fd_);
    throw CheckpointError(str_format(
        "[checkpoint.save] another job saves to {}: {}; give each job a folder "
        "of its own",
        folder.url(),
        holder.empty() ? "unknown" : holder));
  }
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  text_ = str("process ", ::getpid(), " on ", host);
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, text_.data(), text_.size(), 0) < 0) {
    // Only what an error would show is missing.
  }
  struct ::stat status {};
  if (::stat(folder.path().c_str(), &status) == 0) {
    inode_ = {status.st_dev, status.st_ino};
  }
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

bool FolderLock::is_same_folder() const {
  struct ::stat status {};
  return ::stat(folder_.path().c_str(), &status) == 0 &&
      inode_.device == status.st_dev && inode_.number == status.st_ino;
}

// A file system that was mounted anew may number its files otherwise; what this
// job wrote into the lock is there still.
bool FolderLock::lock_again() {
  const int fd = ::open(folder_.path_of(kLockName).c_str(), O_RDWR | O_CLOEXEC);
  struct ::stat status {};
  if (fd < 0 || text_in(fd) != text_ || ::flock(fd, LOCK_EX | LOCK_NB) != 0 ||
      ::stat(folder_.path().c_str(), &status) != 0) {
    ::close(fd);
    return false;
  }
  ::close(std::exchange(fd_, fd));
  inode_ = {status.st_dev, status.st_ino};
  return true;
}

void FolderLock::check() {
  if (fd_ < 0 || is_same_folder() || lock_again()) {
    return;
  }
  throw CheckpointError(str_format(
      "[checkpoint.save] {} is no longer the folder that this job opened: its "
      "file system was unmounted, another was mounted over it, or it was "
      "removed. Nothing was written. Mount it again and save again, or save to "
      "another folder",
      folder_.url()));
}

Chosen choose(
    const std::string& url,
    std::optional<std::int64_t> step,
    Deadline deadline) {
  fs::Location location = fs::open(url);
  if (step) {
    Folder folder(std::move(location));
    return {std::move(folder), folder_name(*step)};
  }
  const std::string own = fs::join_path(location.path, kManifestName);
  if (location.fs->stat(own, deadline)) {
    const std::string name = fs::base_name(location.path);
    location.path = fs::parent_path(location.path);
    return {Folder(std::move(location)), name};
  }
  Folder folder(std::move(location));
  const auto newest = folder.newest(deadline);
  if (!newest) {
    throw CheckpointError(str_format(
        "[checkpoint.load] {} has no checkpoint: neither a {} nor a folder {} "
        "with one",
        folder.url(),
        kManifestName,
        folder_name(0)));
  }
  return {std::move(folder), newest->name};
}

std::vector<std::int64_t> superfluous(
    std::vector<Rated> committed, const KeepPolicy& policy) {
  if (policy.last <= 0 || committed.empty()) {
    return {};
  }
  std::ranges::sort(committed, {}, &Rated::step);
  std::set<std::int64_t> kept;
  const std::size_t first = committed.size() -
      std::min(committed.size(), static_cast<std::size_t>(policy.last));
  for (std::size_t i = first; i < committed.size(); ++i) {
    kept.insert(committed[i].step);
  }
  std::vector<Rated> rated;
  for (const Rated& each : committed) {
    if (policy.every > 0 && each.step % policy.every == 0) {
      kept.insert(each.step);
    }
    if (each.metric) {
      rated.push_back(each);
    }
  }
  std::ranges::stable_sort(rated, [&](const Rated& a, const Rated& b) {
    return policy.lower_is_better ? *a.metric < *b.metric
                                  : *a.metric > *b.metric;
  });
  for (std::size_t i = 0;
       i < rated.size() && i < static_cast<std::size_t>(policy.best);
       ++i) {
    kept.insert(rated[i].step);
  }
  std::vector<std::int64_t> removed;
  for (const Rated& each : committed) {
    if (kept.count(each.step) == 0) {
      removed.push_back(each.step);
    }
  }
  return removed;
}

} // namespace argosy::checkpoint
