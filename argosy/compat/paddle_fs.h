#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "argosy/common/error.h"

// File systems of paddle.distributed.fleet.utils, over argosy/fs. New code
// should use that.
namespace argosy::fleet::utils {

// A command failed; the message has its output.
class ExecuteError : public SystemError {
 public:
  using SystemError::SystemError;
};

// The Java machine of a command aborted: exit code 134. Not tried again.
class FSShellCmdAborted : public ExecuteError {
 public:
  using ExecuteError::ExecuteError;
};

class FSFileExistsError : public SystemError {
 public:
  using SystemError::SystemError;
};

class FSFileNotExistsError : public SystemError {
 public:
  using SystemError::SystemError;
};

// A command failed until `time_out`.
class FSTimeOut : public TimeoutError {
 public:
  using TimeoutError::TimeoutError;
};

class FsBackend; // in compat/fs_backend.h

// What both have. Paths are of that file system, `local_path` of this machine.
// Besides the classes above, methods throw what argosy/fs throws.
class FS {
 public:
  struct Listing {
    std::vector<std::string> dirs;
    std::vector<std::string> files;
    bool operator==(const Listing&) const = default;
  };
  struct FileInfo {
    std::string path;
    std::uint64_t size = 0;
    bool operator==(const FileInfo&) const = default;
  };

  virtual ~FS();
  virtual bool need_upload_download() const = 0;

  // Names one level below; none if absent.
  Listing ls_dir(const std::string& path);
  std::vector<std::string> list_dirs(const std::string& path);
  bool is_file(const std::string& path);
  bool is_dir(const std::string& path);
  bool is_exist(const std::string& path);

  // Copies a file or folder there and back, several files at once. `path` and
  // `local_path` are the names of the copies. Throws FSFileNotExistsError if
  // there is nothing to copy, FSFileExistsError if the copy exists and is not
  // to be overwritten.
  void upload(
      const std::string& local_path,
      const std::string& path,
      int multi_processes = 1,
      bool overwrite = false);
  void download(
      const std::string& path,
      const std::string& local_path,
      int multi_processes = 1,
      bool overwrite = false);
  // The same for a folder.
  void upload_dir(
      const std::string& local_dir,
      const std::string& dest_dir,
      bool overwrite = false);

  // Throws FSFileExistsError if a file has that name.
  void mkdirs(const std::string& path);

  // `delete` of the reference: a file or tree; nothing if absent.
  void remove(const std::string& path);

  // Does not look whether `to` exists.
  void rename(const std::string& from, const std::string& to);

  // Throws FSFileNotExistsError if `from` is absent; if `to` exists, removes it
  // with `overwrite`, else throws FSFileExistsError. HDFSClient looks only with
  // `test_exists` or `overwrite`; LocalFS always does.
  void mv(
      const std::string& from,
      const std::string& to,
      bool overwrite = false,
      bool test_exists = false);

  // Makes an empty file. Does nothing if it exists, or throws FSFileExistsError
  // without `exist_ok`.
  void touch(const std::string& path, bool exist_ok = true);

  // Returns a file's text; "" if absent.
  std::string cat(const std::string& path);

  // Files among these paths and one level below them, with their sizes.
  std::vector<FileInfo> list_files_info(const std::vector<std::string>& paths);

 protected:
  explicit FS(std::unique_ptr<FsBackend> backend);

 private:
  const std::unique_ptr<FsBackend> backend_;
};

class LocalFS : public FS {
 public:
  LocalFS();
  bool need_upload_download() const override { return false; }
};

// HDFS. Over WebHDFS if `configs` have the namenode's HTTP address: as
// "dfs.namenode.http-address" (host:port), or as "fs.defaultFS" or
// "fs.default.name" (webhdfs://host:port). Else by the command
// `<hadoop_home>/bin/hadoop fs`, which gets all configs as -Dkey=value. The
// user of WebHDFS is that of "hadoop.job.ugi" (user,password).
//
// A command that fails is run again up to 5 times, 3 * sleep_inter apart (once
// for tests and moves), and all of that again every sleep_inter until time_out;
// then FSTimeOut.
class HDFSClient : public FS {
 public:
  using Configs = std::map<std::string, std::string>;

  // Times are in milliseconds. Throws InvalidArgument if neither an address nor
  // a command is there.
  HDFSClient(
      const std::string& hadoop_home,
      const Configs& configs,
      int time_out = 5 * 60 * 1000,
      int sleep_inter = 1000);
  bool need_upload_download() const override { return true; }
};

} // namespace argosy::fleet::utils
