#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "argosy/compat/paddle_fs.h"
#include "argosy/fs/open.h"

namespace argosy::fleet::utils {

// What FS asks of a file system.
class FsBackend {
 public:
  enum class Kind { Nothing, File, Folder };

  virtual ~FsBackend() = default;

  virtual Kind kind(const std::string& path) = 0;
  // Entries one level below a folder, or the file itself.
  virtual std::vector<fs::Entry> list(const std::string& path) = 0;
  virtual void make_dirs(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void make_empty(const std::string& path) = 0;
  virtual std::string read(const std::string& path) = 0;
  // Copies a file or folder, so many files at once.
  virtual void upload(
      const std::string& local_path, const std::string& path, int at_once) = 0;
  virtual void download(
      const std::string& path, const std::string& local_path, int at_once) = 0;
  // Whether mv() looks for both paths in any case.
  virtual bool always_looks() const { return false; }
};

// Any file system of argosy/fs. Each method has `time_out`.
std::unique_ptr<FsBackend> make_fs_backend(
    std::shared_ptr<fs::FileSystem> files, std::chrono::milliseconds time_out);

// How the command is called.
struct HadoopCommand {
  std::string program;            // <home>/bin/hadoop
  std::vector<std::string> flags; // -Dkey=value
  std::chrono::milliseconds time_out{};
  std::chrono::milliseconds sleep_inter{};
};

std::unique_ptr<FsBackend> make_hadoop_backend(HadoopCommand command);

} // namespace argosy::fleet::utils
