#include "argosy/fs/local.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "argosy/fs/partial.h"

namespace argosy::fs {

namespace {

namespace stdfs = std::filesystem;

Entry local_entry(std::string name, const struct ::stat& status) {
  const bool is_dir = S_ISDIR(status.st_mode);
  const auto since_epoch = std::chrono::seconds(status.st_mtim.tv_sec) +
      std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return {
      .name = std::move(name),
      .is_dir = is_dir,
      .bytes = is_dir ? 0 : static_cast<std::uint64_t>(status.st_size),
      .modified = std::chrono::system_clock::time_point(since_epoch)};
}

// Whether nobody writes this partial file. Its writer holds the lock while it
// lives.
bool is_abandoned(const std::string& path) {
  const LocalFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file && ::flock(file.fd(), LOCK_EX | LOCK_NB) == 0;
}

// Whether link() fails because files cannot have two names here.
bool is_link_unsupported(int error) {
  return error == EXDEV || error == EPERM || error == EMLINK ||
      error == EOPNOTSUPP || error == ENOSYS;
}

std::vector<std::string> names_in(
    const std::string& folder, std::string_view op, const Deadline& deadline) {
  check_deadline(deadline, op, folder);
  std::vector<std::string> names;
  std::error_code error;
  stdfs::directory_iterator at(folder, error);
  while (!error && at != stdfs::directory_iterator()) {
    check_deadline(deadline, op, folder);
    names.push_back(at->path().filename().string());
    at.increment(error);
  }
  if (error && error.value() != ENOENT) {
    throw_errno(error.value(), op, folder);
  }
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace

LocalFile::~LocalFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

std::string folder_of(const std::string& path) {
  const std::string folder = parent_path(path);
  return folder.empty() ? "." : folder;
}

void check_deadline(
    const Deadline& deadline, std::string_view op, const std::string& path) {
  if (deadline.expired()) {
    throw TimeoutError(
        str("[fs.",
            op,
            "] ",
            path,
            ": not done within ",
            deadline.limit_text(),
            "; raise the limit if the file system is only slow"));
  }
}

void sync_folder(const std::string& folder, std::string_view op) {
  const LocalFile file(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file) {
    throw_errno(errno, op, folder);
  }
  // Some file systems (FUSE, SMB) cannot sync folders, and say so.
  if (::fsync(file.fd()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    throw_errno(errno, op, folder);
  }
}

std::string LocalFileSystem::url(const std::string& path) const {
  return path;
}

std::vector<Entry> LocalFileSystem::list(
    const std::string& folder, Deadline deadline) {
  std::vector<Entry> entries;
  for (const std::string& name : names_in(folder, "list", deadline)) {
    if (is_partial(name)) {
      continue;
    }
    // It may be gone since, or be a link to nothing.
    if (auto entry = stat(join_path(folder, name), deadline)) {
      entries.push_back(std::move(*entry));
    }
  }
  return entries;
}

std::optional<Entry> LocalFileSystem::stat(
    const std::string& path, Deadline deadline) {
  check_deadline(deadline, "stat", path);
  struct ::stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    return local_entry(base_name(path), status);
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    throw_errno(errno, "stat", path);
  }
  return std::nullopt;
}

void LocalFileSystem::make_dirs(const std::string& folder, Deadline deadline) {
  check_deadline(deadline, "make_dirs", folder);
  std::vector<std::string> missing;
  for (std::string at = folder;;) {
    if (const auto entry = stat(at, deadline)) {
      if (!entry->is_dir) {
        throw_errno(ENOTDIR, "make_dirs", folder);
      }
      break;
    }
    missing.push_back(at);
    const std::string parent = folder_of(at);
    if (parent == at) {
      break;
    }
    at = parent;
  }
  for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
    // Another process may make the same folders at this moment.
    if (::mkdir(at->c_str(), 0777) != 0 && errno != EEXIST) {
      throw_errno(errno, "make_dirs", *at);
    }
    sync_folder(folder_of(*at), "make_dirs");
  }
}

void LocalFileSystem::remove(const std::string& path, Deadline deadline) {
  check_deadline(deadline, "remove", path);
  std::error_code error;
  stdfs::remove_all(path, error);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR) {
    throw_errno(error.value(), "remove", path);
  }
}

void LocalFileSystem::rename(
    const std::string& from, const std::string& to, Deadline deadline) {
  check_deadline(deadline, "rename", from);
  if (::rename(from.c_str(), to.c_str()) != 0) {
    const int error = errno;
    const bool has_source = stat(from, deadline).has_value();
    throw_errno(error, "rename", error == ENOENT && !has_source ? from : to);
  }
  sync_folder(folder_of(to), "rename");
  if (folder_of(from) != folder_of(to)) {
    sync_folder(folder_of(from), "rename");
  }
}

bool LocalFileSystem::link(
    const std::string& from, const std::string& to, Deadline deadline) {
  check_deadline(deadline, "link", from);
  // link() replaces nothing, rename() does.
  const std::string partial = partial_path(to);
  if (::link(from.c_str(), partial.c_str()) != 0) {
    const int error = errno;
    const auto source = stat(from, deadline);
    if (!source || source->is_dir) {
      throw_errno(source ? EISDIR : ENOENT, "link", from);
    }
    if (is_link_unsupported(error)) {
      return false;
    }
    throw_errno(error, "link", to);
  }
  const int error = ::rename(partial.c_str(), to.c_str()) == 0 ? 0 : errno;
  // rename() keeps both names if they were of the same file already.
  ::unlink(partial.c_str());
  if (error != 0) {
    throw_errno(error, "link", to);
  }
  sync_folder(folder_of(to), "link");
  return true;
}

std::unique_ptr<Reader> LocalFileSystem::open_read(
    const std::string& path, ReadOptions options, Deadline deadline) {
  check_deadline(deadline, "open_read", path);
  return open_local_reader(path, std::move(options));
}

std::unique_ptr<Writer> LocalFileSystem::open_write(
    const std::string& path, WriteOptions options, Deadline deadline) {
  check_deadline(deadline, "open_write", path);
  return open_local_writer(path, std::move(options));
}

int LocalFileSystem::sweep(
    const std::string& folder, std::chrono::seconds, Deadline deadline) {
  int num_removed = 0;
  for (const std::string& name : names_in(folder, "sweep", deadline)) {
    const std::string path = join_path(folder, name);
    if (is_partial(name) && is_abandoned(path) && ::unlink(path.c_str()) == 0) {
      ++num_removed;
    }
  }
  return num_removed;
}

} // namespace argosy::fs
