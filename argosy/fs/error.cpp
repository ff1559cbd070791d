#include "argosy/fs/error.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace argosy::fs {

namespace {

namespace stdfs = std::filesystem;

Failure failure_of(int error) {
  switch (error) {
    case ENOENT:
    case ESTALE:
      return Failure::NotFound;
    case EEXIST:
    case ENOTEMPTY:
      return Failure::Exists;
    case ENOTDIR:
    case EISDIR:
      return Failure::WrongType;
    case EACCES:
    case EPERM:
    case EROFS:
      return Failure::Denied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Failure::NoSpace;
    default:
      return Failure::Other;
  }
}

// The first ancestor that is missing, or that is no folder.
std::string culprit(const stdfs::path& path, bool missing) {
  std::error_code ignored;
  stdfs::path prefix;
  for (const auto& part : path) {
    prefix /= part;
    const auto status = stdfs::status(prefix, ignored);
    if (missing ? !stdfs::exists(status)
                : stdfs::exists(status) && !stdfs::is_directory(status)) {
      return prefix.string();
    }
  }
  return path.string();
}

std::string free_space_text(const stdfs::path& path) {
  struct ::statvfs status {};
  for (stdfs::path at = path; !at.empty(); at = at.parent_path()) {
    if (::statvfs(at.c_str(), &status) == 0) {
      return str(
          (status.f_bavail * status.f_frsize) >> 20, " MiB free there; ");
    }
    if (at == at.parent_path()) {
      break;
    }
  }
  return {};
}

std::string advice(int error, const std::string& path) {
  switch (error) {
    case ENOENT: {
      const std::string missing = culprit(path, true);
      return missing == path
          ? "expected an existing path"
          : str("the folder ",
                missing,
                " does not exist: make it with make_dirs(), or see whether "
                "its file system is still mounted");
    }
    case ENOTDIR:
    case EEXIST:
      return str(
          culprit(path, false),
          " is a file where a folder is needed: remove it or choose another "
          "path");
    case EISDIR:
      return str(path, " is a folder where a file is needed");
    case ENOTEMPTY:
      return str(path, " is a folder that is not empty");
    case EROFS:
      return "the file system is read-only: mount it for writing or choose "
             "another folder";
    case EACCES:
    case EPERM:
      return "this user may not: change the permissions of the folder or "
             "choose another";
    case ENOSPC:
    case EDQUOT:
      return str(
          free_space_text(path),
          "free some space or choose another folder; what was committed "
          "before is unchanged");
    case EFBIG:
      return "the limit of file sizes is reached: raise `ulimit -f`; what was "
             "committed before is unchanged";
    default:
      return {};
  }
}

} // namespace

FsError::FsError(Failure failure, const std::string& message)
    : SystemError(message), failure_(failure) {}

void throw_errno(int error, std::string_view op, const std::string& path) {
  const std::string hint = advice(error, path);
  throw FsError(
      failure_of(error),
      str("[fs.",
          op,
          "] ",
          path,
          ": ",
          std::generic_category().message(error),
          hint.empty() ? "" : "; ",
          hint));
}

} // namespace argosy::fs
